#include "kernel.h"
#include "activation.h"

KERNEL(gelu_tanh_forward, ActivationForwardParams, 256) {
    FOR_RANGE(i, p.count) {
        const float x = p.x.at[i];
        p.y.at[i] = x * tanh_gate_at(x).open;
    }
}
