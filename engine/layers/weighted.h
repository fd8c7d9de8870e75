// Shared code of convolutions and dense layers: weights and optional biases.
#pragma once

#include "engine/config/attributes.h"
#include "engine/layers/layer_plan.h"
#include "engine/plan/variable.h"

#include <optional>
#include <string>
#include <vector>

namespace towers {

/// How weights begin: with a scale that depends on the numbers of inputs and outputs of a unit.
struct Start {
    Initial::Kind kind;
    double (*scale)(double fan_in, double fan_out);
};

/// The weights' initializer and decay, and the optional biases.
struct Weighted {
    Start start{};
    std::optional<float> stddev;       ///< instead of `start`: normal, truncated at two of these
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
