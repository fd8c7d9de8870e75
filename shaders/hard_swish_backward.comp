#include "kernel.h"
#include "activation.h"

FUNCTION float hard_swish_slope(float x) {
    const float inner = x < -3.0f ? 0.0f : x / 3.0f + 0.5f;
    return x > 3.0f ? 1.0f : inner;
}

ACTIVATION_BACKWARD(hard_swish_backward, dy * hard_swish_slope(saved))
