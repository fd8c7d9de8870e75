#include "kernel.h"
#include "update.h"

KERNEL(sgd, SgdParams, 256) {
    const float rate = p.step.at[STEP_LEARNING_RATE];
    if (!diverged(p.results)) {
        FOR_RANGE(i, p.quads) {
            const vec4 before = p.parameters.at[i];
            p.parameters.at[i] = before - rate * p.gradients.at[i];
        }
    }
}
