// What a recipe's network costs: parameters, arithmetic and memory.
#pragma once

#include "engine/recipes/recipe.h"

#include <cstddef>
#include <string>
#include <vector>

namespace towers {

struct LayerDescription {
    std::string name, kind;
    Shape output;
    std::size_t parameters = 0; ///< that are trained
    /// Of one example, multiply-adds counted as two; backward as Layer::flop() says.
    double forward_flop = 0, backward_flop = 0;
};

/// In the model's order.
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

/// Bytes on the device of a tower that trains alone.
struct StepMemory {
    std::size_t state = 0;       ///< variables, the optimizer's own, moving averages
    std::size_t gradients = 0;   ///< with the step's values of statistics
    std::size_t activations = 0; ///< and all else that lives within a step, the batch's images included
    std::size_t images = 0;      ///< of those, the batch's images
    std::size_t total() const { return state + gradients + activations; }
};

/// Of a step with so many examples, whatever the data set. UsageError when that is too large, or no whole
/// number of the groups that the model takes.
StepMemory memory_of_step(const Recipe& recipe, unsigned batch);

} // namespace towers
