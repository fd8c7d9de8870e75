#include "kernel.h"
#include "activation.h"

KERNEL(silu_backward, ActivationBackwardParams, 256) {
    FOR_RANGE(i, p.count) {
        const float x = p.saved.at[i];
        const float s = sigmoid(x);
        p.dx.at[i] = p.dy.at[i] * (s + x * s * (1.0f - s));
    }
}
