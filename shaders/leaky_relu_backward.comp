#include "kernel.h"

KERNEL(leaky_relu_backward, ActivationBackwardParams, 256) {
    FOR_RANGE(i, p.count) {
        const float dy = p.dy.at[i];
        p.dx.at[i] = p.saved.at[i] > 0.0f ? dy : p.slope * dy;
    }
}
