#include "kernel.h"
#include "update.h"

KERNEL(decoupled_decay, DecoupledDecayParams, 256) {
    const float shrink = p.step.at[STEP_LEARNING_RATE] * p.decay;
    if (!diverged(p.results)) {
        FOR_RANGE(i, p.quads) {
            const vec4 before = p.parameters.at[i];
            p.parameters.at[i] = before - shrink * before;
        }
    }
}
