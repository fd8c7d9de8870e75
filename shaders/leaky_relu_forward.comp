#include "kernel.h"
#include "activation.h"

ACTIVATION_FORWARD(leaky_relu_forward, x > 0.0f ? x : p.slope * x)
