#include "kernel.h"
#include "activation.h"

ACTIVATION_BACKWARD(sigmoid_backward, dy * (saved * (1.0f - saved)))
