#include "kernel.h"
#include "activation.h"

ACTIVATION_FORWARD(gelu_tanh_forward, x * tanh_gate_at(x).open)
