// Where a step is cut into recordings: where the host must act.
#pragma once

#include "engine/plan/plan.h"
#include "engine/plan/state.h"

#include <cstddef>
#include <span>
#include <vector>

namespace towers {

/// A recording and what its end allows. The exchanges of the level behind it come before the next one.
struct Cut {
    std::size_t level; ///< it ends before this one
    /// Whose gradients are complete and whose parameters nothing behind it reads, from the first: when one of
    /// them has been delivered, the host may send its new parameters.
    std::size_t buckets;
    std::vector<std::size_t> needs; ///< buckets whose parameters it is the first to read
};

/// Cuts before each level that is the first to read a bucket's parameters, behind each that completes a
/// bucket, before each that has exchanges, and at the end. `buckets`: of the variables.
std::vector<Cut> cut(const Plan& plan, std::span<const ArenaRange> buckets);

} // namespace towers
