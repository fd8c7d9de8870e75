#include "kernel.h"
#include "update.h"

KERNEL(adam, AdamParams, 256) {
    const float rate = p.step.at[STEP_LEARNING_RATE] / p.step.at[STEP_CORRECTION_1];
    const float root = sqrt(p.step.at[STEP_CORRECTION_2]);
    if (!diverged(p.results)) {
        FOR_RANGE(i, p.quads) {
            const vec4 gradient = p.gradients.at[i];
            const vec4 before = p.parameters.at[i];
            const vec4 last_first = p.first_moment.at[i];
            const vec4 last_second = p.second_moment.at[i];
            const vec4 first = last_first + p.blend_1 * (gradient - last_first);
            const vec4 second = last_second + p.blend_2 * (gradient * gradient - last_second);
            p.first_moment.at[i] = first;
            p.second_moment.at[i] = second;
            p.parameters.at[i] = before - rate * first / (sqrt(second) / root + p.epsilon);
        }
    }
}
