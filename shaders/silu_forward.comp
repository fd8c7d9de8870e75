#include "kernel.h"
#include "activation.h"

ACTIVATION_FORWARD(silu_forward, x * sigmoid(x))
