#include "kernel.h"

KERNEL(relu6_forward, ActivationForwardParams, 256) {
    FOR_RANGE(i, p.count) {
        const float x = p.x.at[i];
        const float y = x < 0.0f ? 0.0f : x > 6.0f ? 6.0f : x;
        p.y.at[i] = is_finite(x) ? y : x;
    }
}
