// A reducer as several processes have one: two ranks, of which each owns every other block of the state.
#pragma once

#include "engine/reduce/gradient_reducer.h"

namespace towers::test {

/// Both ranks are in this process and have the same towers. They work late, in pauses that are drawn anew in
/// each run, so that buckets and exchanges are complete at any time after they were given.
std::unique_ptr<GradientReducer> make_two_ranks(const OpenOptions& host, Milestones::Spin spin,
                                                const UpdateSpec& spec, std::vector<StagedByTower> towers,
                                                std::span<const ArenaRange> buckets);

/// What the variable TOWERS_TEST_REDUCER asks for: `two_ranks`; or none, the program's own.
MakeReducer reducer_of_this_run();

} // namespace towers::test
