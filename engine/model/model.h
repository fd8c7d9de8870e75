// What a network is: layers that name their inputs, the shapes that follow, and the variables to train.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace towers {

/// One example's activation: [height, width, channels].
struct Shape {
    unsigned height = 1, width = 1, channels = 1;
    std::size_t elements() const { return std::size_t(height) * width * channels; }
    bool operator==(const Shape&) const = default;
};

/// How a layer's weights begin and decay. Weights: normal, truncated at two standard deviations.
/// The loss gains weight_decay * sum(w^2) / 2; biases never decay.
struct Initial {
    float stddev = 0, bias = 0, weight_decay = 0;
};

/// Padding SAME, as TensorFlow pads: an odd pixel goes below or right. Weights [kernel, kernel, in, filters].
struct Conv2d {
    unsigned filters, kernel, stride;
    bool relu;
    Initial initial;
};

/// Takes the input flattened in NHWC order. Weights [in, units].
struct Dense {
    unsigned units;
    bool relu;
    Initial initial;
};

/// Padding SAME.
struct MaxPool {
    unsigned window, stride;
};

/// y = x / (bias + alpha * sum of x^2 over 2 radius + 1 channels)^beta
struct LocalResponseNorm {
    unsigned radius;
    float bias, alpha, beta;
};

struct Layer {
    std::string name;
    std::vector<std::string> inputs; ///< earlier layers, or `images`
    std::variant<Conv2d, Dense, MaxPool, LocalResponseNorm> operation;
};

/// The last layer's output is the logits.
struct Model {
    std::string name;
    Shape input;
    std::vector<Layer> layers;

    unsigned classes() const;
    /// Index of the layer that makes this input; -1 for the images. Throws std::logic_error when there is
    /// none.
    int producer(const std::string& input) const;
    /// Each layer's output shape. Throws std::logic_error when the layers do not fit together.
    std::vector<Shape> output_shapes() const;
};

struct Variable {
    std::string name; ///< `conv1/weights`, `conv1/biases`
    std::vector<std::size_t> shape;
    float stddev, bias, weight_decay;
    int layer; ///< index into Model::layers
    std::size_t elements() const;
};

/// In the layers' order, weights before biases.
std::vector<Variable> variables_of(const Model& model);

/// A variable's initial values; they depend only on the seed and the variable's name.
std::vector<float> initial_values(const Variable& variable, std::uint64_t seed);

/// Output size and padding of SAME along one axis.
struct SamePadding {
    unsigned out, before;
};
SamePadding same_padding(unsigned in, unsigned window, unsigned stride);

} // namespace towers
