#include "kernel.h"
#include "activation.h"

ACTIVATION_BACKWARD(relu_backward, saved > 0.0f ? dy : 0.0f)
