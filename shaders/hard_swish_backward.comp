#include "kernel.h"

KERNEL(hard_swish_backward, ActivationBackwardParams, 256) {
    FOR_RANGE(i, p.count) {
        const float x = p.saved.at[i];
        const float inner = x < -3.0f ? 0.0f : x / 3.0f + 0.5f;
        p.dx.at[i] = p.dy.at[i] * (x > 3.0f ? 1.0f : inner);
    }
}
