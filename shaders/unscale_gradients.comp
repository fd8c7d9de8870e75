#include "kernel.h"

KERNEL(unscale_gradients, UnscaleGradientsParams, 256) {
    const float scale = p.step.at[STEP_GRADIENT_SCALE];
    FOR_RANGE(i, p.quads) {
        const vec4 gradient = p.gradients.at[i];
        p.gradients.at[i] = scale * gradient;
    }
}
