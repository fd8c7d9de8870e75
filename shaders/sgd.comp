#include "kernel.h"

KERNEL(sgd, SgdParams, 256) {
    const float rate = p.step.at[STEP_LEARNING_RATE];
    const float blend = 1.0f - p.step.at[STEP_AVERAGE_DECAY];
    const bool diverged =
        p.results.at[RESULT_NONFINITE] != 0.0f || !is_finite(p.results.at[RESULT_TOTAL_LOSS]);
    if (!diverged) {
        FOR_RANGE(i, p.quads) {
            const vec4 before = p.parameters.at[i];
            const vec4 after = before - rate * p.gradients.at[i];
            const vec4 average = p.averages.at[i];
            p.parameters.at[i] = after;
            p.averages.at[i] = average + blend * ((p.average_first != 0u ? before : after) - average);
        }
    }
}
