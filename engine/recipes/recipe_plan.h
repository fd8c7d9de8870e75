// What plans of a recipe are made for, and the numbers that their steps take.
#pragma once

#include "engine/recipes/quirks.h"
#include "engine/recipes/recipe.h"
#include "engine/step/network.h"

#include <cstdint>

namespace towers {

/// The layout of the training state for this recipe.
StateLayout layout_of(const Recipe& recipe);

/// What plans of the recipe are made for: `rest` with the recipe's parts. What is named here must outlive it.
NetworkSpec network_spec(const Recipe& recipe, const StateLayout& layout, NetworkSpec rest);
UpdateSpec update_spec(const Recipe& recipe, const StateLayout& layout, const Quirks& quirks = {});

/// The moving averages' decay at update `n`, counted from 1.
double average_decay_at(const Recipe& recipe, std::uint64_t n);

/// The numbers that the host gives the step with update `n`, counted from 1.
StepNumbers numbers_of_update(const Recipe& recipe, double learning_rate, std::uint64_t n);

} // namespace towers
