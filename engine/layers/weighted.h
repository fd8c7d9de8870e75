// Shared code of convolutions and dense layers: weights and optional biases.
#pragma once

#include "engine/layers/layer_plan.h"
#include "engine/config/attributes.h"
#include "engine/plan/variable.h"

#include <optional>
#include <string>
#include <vector>

namespace towers {

/// The weights' initializer and decay, and the optional biases.
struct Weighted {
    enum class Start {
        stddev,         ///< normal, truncated at two of the given standard deviations
        he_normal,      ///< normal, standard deviation sqrt(2 / fan_in) (He et al. 2015)
        he_fan_out,     ///< the same with fan_out, as in torchvision's ResNets
        glorot_uniform, ///< uniform within sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)
        uniform_fan_in, ///< uniform within 1 / sqrt(fan_in), PyTorch's default
        uniform_fan_out ///< uniform within 1 / sqrt(fan_out), as in torchvision's EfficientNets
    } start = Start::he_normal;
    float stddev = 0;
    std::optional<float> bias = 0.0f;  ///< initial value; none: no biases
    std::optional<float> weight_decay; ///< absent: the recipe's

    /// The variables: `weights` of this shape and `biases`, one per element of the last axis. `axes`: as
    /// Variable::axes.
    std::vector<Variable> variables(std::vector<std::size_t> shape, std::string axes, double fan_in,
                                    double fan_out) const;

    // Adds the operations of a layer with this shape.
    TensorId forward(LayerPlan& plan, const ConvShape& shape) const;
    std::vector<TensorId> backward(LayerPlan& plan, const ConvShape& shape, TensorId dy) const;
};

/// Reads `stddev` or `init`, `bias` (false, or the initial value) and `weight_decay`.
Weighted read_weighted(Attributes& attributes);

} // namespace towers
