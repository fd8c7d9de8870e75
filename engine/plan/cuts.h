// Cuts a step into recordings at the points where the host must act.
#pragma once

#include "engine/plan/plan.h"
#include "engine/plan/state.h"

#include <cstddef>
#include <span>
#include <vector>

namespace towers {

/// The end of a recording. The host then does the exchanges of the level that follows.
struct Cut {
    std::size_t level; ///< that the next recording begins with
    /// So many buckets, from the first on, have complete gradients and parameters that no later recording
    /// reads. As soon as the host has such a bucket's gradients, it may send the new parameters.
    std::size_t buckets;
    std::vector<std::size_t> needs; ///< buckets whose parameters this recording is the first to read
};

/// Cuts before each level that is the first to read a bucket's parameters, after each level that completes a
/// bucket, before each level that has exchanges, and at the end. `buckets`: ranges of the variables.
std::vector<Cut> cut(const Plan& plan, std::span<const ArenaRange> buckets);

/// Cuts before the first level that writes the state, and at the end. The step must have no exchanges.
std::vector<Cut> cut_before_update(const Plan& plan);

} // namespace towers
