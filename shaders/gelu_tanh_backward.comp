#include "kernel.h"
#include "activation.h"

FUNCTION float gelu_tanh_slope(float x) {
    const TanhGate gate = tanh_gate_at(x);
    return gate.open + x * gate.slope;
}

ACTIVATION_BACKWARD(gelu_tanh_backward, dy * gelu_tanh_slope(saved))
