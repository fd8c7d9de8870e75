// What the element by element kernels should compute; see reference.h.
#pragma once

#include "tests/conformance/reference.h"

namespace towers::reference {

/// A function of one number and its derivative, both of x.
struct Activation {
    double (*value)(double);
    double (*derivative)(double);
};
/// gelu: Hendrycks and Gimpel 2016 by the error function, as PyTorch's default; gelu_tanh: their
/// approximation.
extern const Activation relu_function, relu6, sigmoid, silu, gelu, gelu_tanh, hard_swish, softplus;
/// Of this slope below zero
constexpr float leaky_slope = 0.2f;
extern const Activation leaky_relu;

/// a and the result: [batch, pixels, channels]; b: [batch, 1, channels].
Values multiply_broadcast(uint pixels, uint channels, Values a, const Values& b);
Values multiply_broadcast_scale_gradient(uint pixels, uint channels, const Values& a, const Values& dy);

} // namespace towers::reference
