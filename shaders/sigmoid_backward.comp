#include "kernel.h"

KERNEL(sigmoid_backward, ActivationBackwardParams, 256) {
    FOR_RANGE(i, p.count) {
        const float y = p.saved.at[i];
        p.dx.at[i] = p.dy.at[i] * (y * (1.0f - y));
    }
}
