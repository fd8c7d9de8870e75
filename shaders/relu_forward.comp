#include "kernel.h"

KERNEL(relu_forward, ActivationForwardParams, 256) {
    FOR_RANGE(i, p.count) { p.y.at[i] = p.x.at[i] < 0.0f ? 0.0f : p.x.at[i]; }
}
