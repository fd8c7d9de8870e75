#include "kernel.h"
#include "activation.h"

FUNCTION float silu_slope(float x) {
    const float s = sigmoid(x);
    return s + x * s * (1.0f - s);
}

ACTIVATION_BACKWARD(silu_backward, dy * silu_slope(saved))
