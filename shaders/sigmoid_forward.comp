#include "kernel.h"
#include "activation.h"

ACTIVATION_FORWARD(sigmoid_forward, sigmoid(x))
