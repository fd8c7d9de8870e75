#include "kernel.h"
#include "activation.h"

ACTIVATION_FORWARD(relu_forward, x < 0.0f ? 0.0f : x)
