#include "kernel.h"
#include "activation.h"

KERNEL(sigmoid_forward, ActivationForwardParams, 256) {
    FOR_RANGE(i, p.count) { p.y.at[i] = sigmoid(p.x.at[i]); }
}
