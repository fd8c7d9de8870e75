// The variables that a network learns or keeps.
#pragma once

#include "engine/plan/shape.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// The role of a piece of the training's state.
enum class Role {
    trained,   ///< has a gradient
    statistic, ///< follows the activations, such as batch norm's moving mean
    optimizer, ///< the optimizer's own, such as a velocity; one per trained variable
    average,   ///< moving average of a variable
};

/// A variable's initial values.
struct Initial {
    enum class Kind { constant, truncated_normal, normal, uniform } kind = Kind::constant;
    float value = 0; ///< the constant
    float scale = 0; ///< standard deviation, before truncation at two of them; or half the uniform's width

    static Initial constant(float value) { return {Kind::constant, value, 0}; }
};

struct Variable {
    std::string name; ///< `conv1/weights`, `conv1/biases`
    TensorShape shape;
    Role role = Role::trained;
    Initial initial;
    bool decays = false;                    ///< whether the recipe's weight decay applies
    std::optional<float> weight_decay = {}; ///< the layer's own, instead of the recipe's
    float blend = 0;                        ///< of a statistic: how far a step moves it to the step's value
    int node = 0;                           ///< index into Model::nodes; set by Model
    std::string axes = {};                  ///< names of the shape's axes, for people: "in, out"
    bool frozen = false;                    ///< training leaves it as it is; set by Model
    bool learns() const { return role == Role::trained && !frozen; }
    std::size_t elements() const { return elements_of(shape); }
};

/// A variable's initial values; they depend only on the seed and the variable's name.
std::vector<float> initial_values(const Variable& variable, std::uint64_t seed);

} // namespace towers
