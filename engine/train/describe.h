// The costs of a recipe's network: parameters, arithmetic and memory.
#pragma once

#include "engine/recipes/recipe.h"

#include <cstddef>
#include <string>
#include <vector>

namespace towers {

struct LayerDescription {
    std::string name, kind;
    Shape output;
    std::size_t parameters = 0; ///< trained ones only
    /// Floating-point operations for one example; a multiply-add counts as two. Backward as Layer::flop()
    /// says.
    double forward_flop = 0, backward_flop = 0;
    std::string attributes = {}; ///< what the kind does not say: `3x3, stride 2, pad 1, no biases`
};

/// The layers in the model's order.
std::vector<LayerDescription> describe_layers(const Model& model);

/// A tensor that outlives a step; checkpoints have it under the same name.
struct VariableDescription {
    std::string name; ///< `conv1/weights`, `conv1/weights/Momentum`
    Role role;
    std::vector<std::size_t> shape;
    std::string axes; ///< what the shape's numbers count: "height, width, in, out"
};

/// The variables in the model's order, then the optimizer's state, then the averages.
std::vector<VariableDescription> describe_variables(const Recipe& recipe);

/// Bytes on the device of a single tower.
struct StepMemory {
    std::size_t state = 0;       ///< variables, the optimizer's own, moving averages
    std::size_t gradients = 0;   ///< with the step's values of statistics
    std::size_t activations = 0; ///< and all else that lives within a step, the batch's images included
    std::size_t images = 0;      ///< the part of the activations for the batch's images
    std::size_t total() const { return state + gradients + activations; }
};

/// The memory of a step with this many examples, without the data set. Throws UsageError if there are too
/// many, or they are not whole groups of the model.
StepMemory memory_of_step(const Recipe& recipe, unsigned batch);

} // namespace towers
