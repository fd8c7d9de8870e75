#include "kernel.h"

KERNEL(leaky_relu_forward, ActivationForwardParams, 256) {
    FOR_RANGE(i, p.count) {
        const float x = p.x.at[i];
        p.y.at[i] = x > 0.0f ? x : p.slope * x;
    }
}
