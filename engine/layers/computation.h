// What a layer computes in an evaluation, as plain data that says all of it: exporters and descriptions read
// this and nothing else of a layer. Its variables are those of Layer::variables().
#pragma once

#include "engine/layers/window.h"

#include <array>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace towers {

/// A window, and its padding on an input of one size. Along (height, width).
struct PlacedWindow {
    std::array<unsigned, 2> size, stride, dilation, before, after;
};

/// Throws LayerError as Window::place() does.
PlacedWindow placed_window(const Window& window, const Shape& in);

namespace computation {

struct Add {};
struct Concatenate {}; ///< along the channels
struct Multiply {};    ///< the second input has the first's shape, or one value per channel
struct Flatten {};     ///< in the order height, width, channels
struct Dropout {       ///< only in training; an evaluation leaves its input as it is
    float keep;
};
struct Convolution { ///< weights [height, width, in / groups, out]
    PlacedWindow window;
    unsigned groups;
    bool biases;
};
struct Dense { ///< of the input flattened as Flatten does; weights [in, out]
    bool biases;
};
struct MaxPool { ///< padding is never the maximum
    PlacedWindow window;
};
struct AveragePool {
    PlacedWindow window;
    bool counts_padding; ///< as zeros; otherwise the mean leaves padding out
};
struct GlobalAveragePool {};
struct BatchNorm { ///< (x - moving_mean) / sqrt(moving_variance + epsilon) * gamma + beta
    float epsilon;
    bool gamma, beta;
    float blend; ///< how far a step of training moves the moving statistics to its own
};
struct LayerNorm { ///< the same with the mean and variance of a pixel's channels
    float epsilon;
    bool gamma, beta;
};
struct LocalResponseNorm { ///< x / (bias + alpha * sum of x^2 over 2 radius + 1 channels)^beta
    unsigned radius;
    float bias, alpha, beta;
};
enum class Function { gelu, gelu_tanh, hard_swish, leaky_relu, relu, relu6, sigmoid, silu, softplus };
struct Activation {
    Function function;
    float slope; ///< of leaky_relu below zero
};

} // namespace computation

using Computation =
    std::variant<computation::Add, computation::Concatenate, computation::Multiply, computation::Flatten,
                 computation::Dropout, computation::Convolution, computation::Dense, computation::MaxPool,
                 computation::AveragePool, computation::GlobalAveragePool, computation::BatchNorm,
                 computation::LayerNorm, computation::LocalResponseNorm, computation::Activation>;

/// The attributes that are not what a reader expects of the kind, for people: `3x3, stride 2, pad 0 1 0 1`
/// ([top, bottom, left, right]). Empty if the kind says it all.
std::string to_string(const Computation& computation);

/// A visitor of a Computation, made of one function for each alternative: one that is missing does not
/// compile.
template<class... Functions>
struct Cases : Functions... {
    using Functions::operator()...;
};
template<class... Functions>
Cases(Functions...) -> Cases<Functions...>;

} // namespace towers
