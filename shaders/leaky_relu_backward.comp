#include "kernel.h"
#include "activation.h"

ACTIVATION_BACKWARD(leaky_relu_backward, saved > 0.0f ? dy : p.slope * dy)
