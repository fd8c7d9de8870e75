#include "kernel.h"

KERNEL(hard_swish_forward, ActivationForwardParams, 256) {
    FOR_RANGE(i, p.count) {
        const float x = p.x.at[i];
        // Compared, not clamped: GLSL leaves open what min() and max() make of a NaN.
        const float open = x > -3.0f ? x + 3.0f : 0.0f;
        p.y.at[i] = x * ((x < 3.0f ? open : 6.0f) / 6.0f);
    }
}
