#include "kernel.h"
#include "update.h"

KERNEL(momentum, MomentumParams, 256) {
    const float rate = p.step.at[STEP_LEARNING_RATE];
    if (!diverged(p.results)) {
        FOR_RANGE(i, p.quads) {
            const vec4 gradient = p.gradients.at[i];
            const vec4 before = p.parameters.at[i];
            const vec4 last = p.velocity.at[i];
            const vec4 velocity = p.momentum * last + gradient;
            p.velocity.at[i] = velocity;
            p.parameters.at[i] =
                before - rate * (p.nesterov != 0u ? gradient + p.momentum * velocity : velocity);
        }
    }
}
