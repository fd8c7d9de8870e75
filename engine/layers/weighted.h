// What convolutions and dense layers share: weights and, unless they do without, biases.
#pragma once

#include "engine/layers/layer_plan.h"
#include "engine/config/attributes.h"
#include "engine/plan/variable.h"

#include <optional>
#include <string>
#include <vector>

namespace towers {

/// How the weights begin, whether there are biases, and how the weights decay.
struct Weighted {
    enum class Start {
        stddev,         ///< normal, truncated at two of the given standard deviations
        he_normal,      ///< normal, standard deviation sqrt(2 / fan_in) (He et al. 2015)
        he_fan_out,     ///< likewise, of fan_out, as torchvision's ResNets have it
        glorot_uniform, ///< uniform within sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)
        uniform_fan_in, ///< uniform within 1 / sqrt(fan_in), PyTorch's own
        uniform_fan_out ///< uniform within 1 / sqrt(fan_out), as torchvision's EfficientNets end
    } start = Start::he_normal;
    float stddev = 0;
    std::optional<float> bias = 0.0f;  ///< initial value
    std::optional<float> weight_decay; ///< else the recipe's

    /// `weights` of that shape, and `biases`, one for each of the last axis. `axes`: as Variable::axes.
    std::vector<Variable> variables(std::vector<std::size_t> shape, std::string axes, double fan_in,
                                    double fan_out) const;

    // The operations of a layer with this shape.
    TensorId forward(LayerPlan& plan, const ConvShape& shape) const;
    std::vector<TensorId> backward(LayerPlan& plan, const ConvShape& shape, TensorId dy) const;
};

/// Reads `stddev` or `init`, `bias` (false, or the initial value) and `weight_decay`.
Weighted read_weighted(Attributes& attributes);

} // namespace towers
