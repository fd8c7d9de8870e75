// What happens at an exchange: a point of a step at which the towers hand over values that belong to the
// whole batch, and each takes back what all of them make together.
#pragma once

#include "engine/plan/plan.h"

#include <array>
#include <span>
#include <vector>

namespace towers {

/// One tower's side of an exchange, in its staging memory. All towers' lists have one length.
struct Exchange {
    Merge merge;
    double values; ///< of the tower that stand behind each element
    std::array<std::span<const float>, 2> given;
    std::array<std::span<float>, 2> merged;
};

/// Merges what the towers have given, in their order and in double, into `target`, so that each tower may do
/// it for itself and all get the same bits. An infinity or NaN of any tower shows in the result.
void merge(std::span<const Exchange* const> towers, const Exchange& target);

} // namespace towers
