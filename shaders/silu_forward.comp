#include "kernel.h"
#include "activation.h"

KERNEL(silu_forward, ActivationForwardParams, 256) {
    FOR_RANGE(i, p.count) { p.y.at[i] = p.x.at[i] * sigmoid(p.x.at[i]); }
}
