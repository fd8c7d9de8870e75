#include "kernel.h"
#include "activation.h"

FUNCTION float hard_swish(float x) {
    // Compared, not clamped: GLSL leaves open what min() and max() make of a NaN.
    const PRECISE float open = x > -3.0f ? x + 3.0f : 0.0f;
    const PRECISE float gate = (x < 3.0f ? open : 6.0f) / 6.0f;
    return x * gate;
}

ACTIVATION_FORWARD(hard_swish_forward, hard_swish(x))
