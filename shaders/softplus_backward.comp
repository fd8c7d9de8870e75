#include "kernel.h"
#include "activation.h"

ACTIVATION_BACKWARD(softplus_backward, dy * sigmoid(saved))
