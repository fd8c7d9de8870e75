#include "kernel.h"
#include "activation.h"

ACTIVATION_FORWARD(gelu_forward, x * normal_at(x).below)
