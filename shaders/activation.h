#ifndef TOWERS_SHADERS_ACTIVATION_H
#define TOWERS_SHADERS_ACTIVATION_H

#include "vec4.h"

// The kernels of the activations: `expression` makes y of an element `x`, or dx of `saved` and `dy`.
#if defined(TOWERS_GLSL) || defined(__CUDACC__)
#define ACTIVATION_LANE(lane, expression)                                                                    \
    {                                                                                                        \
        const float x = xs.lane;                                                                             \
        ys.lane = expression;                                                                                \
    }
#define ACTIVATION_FORWARD(name, expression)                                                                 \
    KERNEL(name, ActivationForwardParams, 256) {                                                             \
        if (p.count % 4u == 0u) {                                                                            \
            FOR_RANGE(i, p.count / 4u) {                                                                     \
                const vec4 xs = load_vec4(p.x, i);                                                           \
                vec4 ys;                                                                                     \
                ACTIVATION_LANE(x, expression)                                                               \
                ACTIVATION_LANE(y, expression)                                                               \
                ACTIVATION_LANE(z, expression)                                                               \
                ACTIVATION_LANE(w, expression)                                                               \
                store_vec4(p.y, i, ys);                                                                      \
            }                                                                                                \
        } else {                                                                                             \
            FOR_RANGE(i, p.count) {                                                                          \
                const float x = p.x.at[i];                                                                   \
                p.y.at[i] = expression;                                                                      \
            }                                                                                                \
        }                                                                                                    \
    }
#define ACTIVATION_GRADIENT_LANE(lane, expression)                                                           \
    {                                                                                                        \
        const float saved = saved_xs.lane;                                                                   \
        const float dy = dys.lane;                                                                           \
        dxs.lane = expression;                                                                               \
    }
#define ACTIVATION_BACKWARD(name, expression)                                                                \
    KERNEL(name, ActivationBackwardParams, 256) {                                                            \
        if (p.count % 4u == 0u) {                                                                            \
            FOR_RANGE(i, p.count / 4u) {                                                                     \
                const vec4 saved_xs = load_vec4(p.saved, i);                                                 \
                const vec4 dys = load_vec4(p.dy, i);                                                         \
                vec4 dxs;                                                                                    \
                ACTIVATION_GRADIENT_LANE(x, expression)                                                      \
                ACTIVATION_GRADIENT_LANE(y, expression)                                                      \
                ACTIVATION_GRADIENT_LANE(z, expression)                                                      \
                ACTIVATION_GRADIENT_LANE(w, expression)                                                      \
                store_vec4(p.dx, i, dxs);                                                                    \
            }                                                                                                \
        } else {                                                                                             \
            FOR_RANGE(i, p.count) {                                                                          \
                const float saved = p.saved.at[i];                                                           \
                const float dy = p.dy.at[i];                                                                 \
                p.dx.at[i] = expression;                                                                     \
            }                                                                                                \
        }                                                                                                    \
    }
#else // The host's compilers vectorize no loop over vec4s.
#define ACTIVATION_FORWARD(name, expression)                                                                 \
    KERNEL(name, ActivationForwardParams, 256) {                                                             \
        FOR_ELEMENTS(i, p.count) {                                                                           \
            const float x = p.x.at[i];                                                                       \
            p.y.at[i] = expression;                                                                          \
        }                                                                                                    \
    }
#define ACTIVATION_BACKWARD(name, expression)                                                                \
    KERNEL(name, ActivationBackwardParams, 256) {                                                            \
        FOR_ELEMENTS(i, p.count) {                                                                           \
            const float saved = p.saved.at[i];                                                               \
            const float dy = p.dy.at[i];                                                                     \
            p.dx.at[i] = expression;                                                                         \
        }                                                                                                    \
    }
#endif

// Shared functions of the smooth activations. The dialect's exp() is a call per element on the host and
// inexact on some drivers, and GLSL has no erf(). The functions here vectorize, and are exact to a few units
// in the last place everywhere.

// exp(x) for x <= 0, by the polynomial of Cephes' expf; 0 below -87 (1e-38) and for a NaN, which is_finite()
// sees below
FUNCTION float exp_nonpositive(float x) {
    const float bounded = x > -87.0f ? x : -87.0f;
    const float power = floor(bounded * 1.44269504f + 0.5f);
    const PRECISE float r = bounded - power * 0.693359375f + power * 2.12194440e-4f; // ln 2 in two parts
    float tail = 1.9875691500e-4f;
    tail = tail * r + 1.3981999507e-3f;
    tail = tail * r + 8.3334519073e-3f;
    tail = tail * r + 4.1665795894e-2f;
    tail = tail * r + 1.6666665459e-1f;
    tail = tail * r + 5.0000001201e-1f;
    const float value = (tail * r * r + r + 1.0f) * as_float(uint(int(power) + 127) << 23u);
    return x > -87.0f ? value : 0.0f;
}

// 1 / (1 + exp(-x)). The result is not finite if x is not, although the limits at infinity are 0 and 1: only
// a diverged network gets there, and that must show.
FUNCTION float sigmoid(float x) {
    const float e = exp_nonpositive(x < 0.0f ? x : -x);
    const float value = (x < 0.0f ? e : 1.0f) / (1.0f + e);
    return is_finite(x) ? value : x;
}

// log(1 + exp(x)): max(x, 0) + log(1 + exp(-|x|)), so that exp() cannot overflow and the left tail keeps its
// digits. With e = exp(-|x|) the logarithm is 2 artanh(e / (2 + e)), whose series converges fast, as the
// quotient is at most 1 / 3; the logarithm of some drivers is inexact near 1. Not finite where x is not, as
// sigmoid().
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

// The normal distribution's density at x and the probability below x
struct Normal {
    float density, below;
};

// The probability beyond |x| is exp(-x^2 / 2) t P(t) with t = 1 / (1 + 0.31 |x|): P is our own fit for |x| <
// 14 at Chebyshev's nodes, relative error 2e-7, so that gelu's left tail keeps its digits. Not finite where x
// is not.
FUNCTION Normal normal_at(float x) {
    const float e = exp_nonpositive(-0.5f * x * x);
    const float t = 1.0f / (1.0f + 0.31f * (x < 0.0f ? -x : x));
    float fit = 0.03629617f;
    fit = fit * t - 0.14356861f;
    fit = fit * t + 0.15857001f;
    fit = fit * t - 0.018225585f;
    fit = fit * t + 0.11190991f;
    fit = fit * t + 0.10721785f;
    fit = fit * t + 0.12414914f;
    fit = fit * t + 0.12365120f;
    const float beyond = fit * t * e;
    const float below = x < 0.0f ? beyond : 1.0f - beyond;
    Normal normal;
    normal.density = 0.39894228f * e;
    normal.below = is_finite(x) ? below : x;
    return normal;
}

// The gate 1 / (1 + exp(-v)) = (1 + tanh(v / 2)) / 2 with v = 2 sqrt(2 / pi) (x + 0.044715 x^3), and its
// slope by x
struct TanhGate {
    float open, slope;
};

// Beyond 12 the gate is 0 or 1 to the last bit, and x^3 would overflow. Not finite where x is not.
FUNCTION TanhGate tanh_gate_at(float x) {
    const float above = x < -12.0f ? -12.0f : x;
    const float held = above > 12.0f ? 12.0f : above;
    const float square = held * held;
    const float v = held * (1.59576912f + 0.0713548163f * square);
    const float e = exp_nonpositive(v < 0.0f ? v : -v);
    const float open = (v < 0.0f ? e : 1.0f) / (1.0f + e);
    TanhGate gate;
    gate.open = is_finite(x) ? open : x;
    gate.slope = e / ((1.0f + e) * (1.0f + e)) * (1.59576912f + 0.214064449f * square);
    return gate;
}

#endif
