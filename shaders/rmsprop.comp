#include "kernel.h"
#include "update.h"

KERNEL(rmsprop, RmspropParams, 256) {
    const float rate = p.step.at[STEP_LEARNING_RATE];
    // The learning rate scales the parameters' change, or the velocity
    const float late_rate = p.epsilon_inside != 0u ? 1.0f : rate;
    const float early_rate = p.epsilon_inside != 0u ? rate : 1.0f;
    const float inside = p.epsilon_inside != 0u ? p.epsilon : 0.0f;
    const float outside = p.epsilon_inside != 0u ? 0.0f : p.epsilon;
    if (!diverged(p.results)) {
        FOR_RANGE(i, p.quads) {
            const vec4 gradient = p.gradients.at[i];
            const vec4 before = p.parameters.at[i];
            const vec4 last_square = p.mean_square.at[i];
            const vec4 last = p.velocity.at[i];
            const vec4 mean_square = last_square + p.blend * (gradient * gradient - last_square);
            const vec4 velocity =
                p.momentum * last + early_rate * gradient / (sqrt(mean_square + inside) + outside);
            p.mean_square.at[i] = mean_square;
            p.velocity.at[i] = velocity;
            p.parameters.at[i] = before - late_rate * velocity;
        }
    }
}
