#include "kernel.h"
#include "activation.h"

// max(x, 0) + log(1 + exp(-|x|)), so that exp() cannot overflow and the left tail keeps its digits. With e = exp(-|x|)
// the logarithm is 2 artanh(e / (2 + e)), whose series converges fast, as the quotient is at most 1 / 3; the
// logarithm of some drivers is inexact near 1. Not finite where x is not, as sigmoid().
FUNCTION float softplus(float x) {
    const float e = exp_nonpositive(x < 0.0f ? x : -x);
    const float t = e / (2.0f + e);
    const float square = t * t;
    float series = 1.0f / 15.0f;
    series = series * square + 1.0f / 13.0f;
    series = series * square + 1.0f / 11.0f;
    series = series * square + 1.0f / 9.0f;
    series = series * square + 1.0f / 7.0f;
    series = series * square + 1.0f / 5.0f;
    series = series * square + 1.0f / 3.0f;
    series = series * square + 1.0f;
    const float value = (x < 0.0f ? 0.0f : x) + 2.0f * t * series;
    return is_finite(x) ? value : x;
}

ACTIVATION_FORWARD(softplus_forward, softplus(x))
