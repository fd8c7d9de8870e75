#include "kernel.h"

KERNEL(relu_backward, ActivationBackwardParams, 256) {
    FOR_RANGE(i, p.count) { p.dx.at[i] = p.saved.at[i] > 0.0f ? p.dy.at[i] : 0.0f; }
}
