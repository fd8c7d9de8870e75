#include "kernel.h"
#include "activation.h"

FUNCTION float relu6(float x) {
    const float y = x < 0.0f ? 0.0f : x > 6.0f ? 6.0f : x;
    return is_finite(x) ? y : x;
}

ACTIVATION_FORWARD(relu6_forward, relu6(x))
