#include "kernel.h"

KERNEL(clip_gradients, ClipGradientsParams, 256) {
    const float norm = p.norm.at[0];
    // A norm that is not finite makes all gradients not finite, which the next check finds.
    float scale = norm;
    if (is_finite(norm)) {
        scale = p.most / (norm + 1e-6f);
        if (!(scale < 1.0f)) scale = 1.0f;
    }
    if (scale != 1.0f) {
        FOR_RANGE(i, p.quads) {
            const vec4 gradient = p.gradients.at[i];
            p.gradients.at[i] = scale * gradient;
        }
    }
}
