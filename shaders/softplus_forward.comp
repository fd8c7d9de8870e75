#include "kernel.h"
#include "activation.h"

ACTIVATION_FORWARD(softplus_forward, softplus(x))
