// Where a step is cut into recordings: where the host must act.
#pragma once

#include "engine/plan/plan.h"
#include "engine/plan/state.h"

#include <span>
#include <vector>

namespace towers {

/// The end of a recording. The exchanges of the level behind it come before the next recording.
struct Cut {
    std::size_t level;   ///< it ends before this one
    std::size_t buckets; ///< how many have been delivered by then, from the first
};

/// Cuts behind each level that completes a bucket's delivery to Arena::staged_gradients, before each that has
/// exchanges, and at the end.
std::vector<Cut> cut(const Plan& plan, std::span<const ArenaRange> buckets);

} // namespace towers
