#include "kernel.h"
#include "update.h"

KERNEL(moving_average, MovingAverageParams, 256) {
    const float blend = p.blend < 0.0f ? 1.0f - p.step.at[STEP_AVERAGE_DECAY] : p.blend;
    if (!diverged(p.results)) {
        FOR_RANGE(i, p.quads) {
            const vec4 average = p.averages.at[i];
            p.averages.at[i] = average + blend * (p.values.at[i] - average);
        }
    }
}
