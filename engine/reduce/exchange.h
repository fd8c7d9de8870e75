// What happens at an exchange: a point within a step at which the towers hand over lists that belong to the
// whole batch, and each gets the merged ones.
#pragma once

#include "engine/plan/plan.h"

#include <array>
#include <span>
#include <vector>

namespace towers {

/// One tower's side of an exchange, in its staging memory. All towers' lists have the same length.
struct Exchange {
    Merge merge;
    double values; ///< how many of the tower's values each element stands for
    std::array<std::span<const float>, 2> given;
    std::array<std::span<float>, 2> merged;
};

/// Merges what the towers have given into `target`, in the order of the towers and in double. So each tower
/// can do it for itself, and all get the same bits. An infinity or NaN of any tower shows in the result.
void merge(std::span<const Exchange* const> towers, const Exchange& target);

} // namespace towers
