#include "kernel.h"
#include "activation.h"

ACTIVATION_BACKWARD(relu6_backward, saved > 0.0f && saved < 6.0f ? dy : 0.0f)
