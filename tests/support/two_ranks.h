// The reducer of several ranks, with two of them in this process.
#pragma once

#include "engine/reduce/gradient_reducer.h"

namespace towers::test {

/// The last tower belongs to the second rank, and all others to the first; a single tower to the first. So
/// sums have the bits of one process.
std::unique_ptr<GradientReducer> make_two_ranks(const OpenOptions& host, Milestones::Spin spin,
                                                const UpdateSpec& spec, std::vector<StagedByTower> towers,
                                                std::span<const ArenaRange> buckets);

/// What the variable TOWERS_TEST_REDUCER asks for: `two_ranks`; or none, the program's own.
MakeReducer reducer_of_this_run();

} // namespace towers::test
