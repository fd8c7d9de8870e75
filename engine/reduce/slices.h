// Which rank updates which part of the state.
#pragma once

#include "engine/plan/plan.h"
#include "engine/plan/state.h"

#include <cstddef>
#include <span>
#include <vector>

namespace towers {

/// A part of a bucket that one rank updates: its owner.
struct Slice {
    ArenaRange range; ///< of the variables
    std::size_t bucket;
    unsigned owner;
};

/// Cuts each bucket into slices of nearly the same size, at most one for each rank and none so small that
/// carrying it is not worth a message, and deals them to the ranks in turn. `whole`: one rank updates
/// everything.
std::vector<Slice> deal_slices(std::span<const ArenaRange> buckets, unsigned ranks, bool whole);

/// The slices' parts that are messages, in their order.
std::vector<Slice> messages_of(const std::vector<Slice>& slices);

} // namespace towers
