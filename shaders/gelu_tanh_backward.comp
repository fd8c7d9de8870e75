#include "kernel.h"
#include "activation.h"

KERNEL(gelu_tanh_backward, ActivationBackwardParams, 256) {
    FOR_RANGE(i, p.count) {
        const float x = p.saved.at[i];
        const TanhGate gate = tanh_gate_at(x);
        p.dx.at[i] = p.dy.at[i] * (gate.open + x * gate.slope);
    }
}
