#include "kernel.h"
#include "activation.h"

FUNCTION float gelu_slope(float x) {
    const Normal normal = normal_at(x);
    return normal.below + x * normal.density;
}

ACTIVATION_BACKWARD(gelu_backward, dy * gelu_slope(saved))
