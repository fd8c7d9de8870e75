// The reducer of several ranks, with two of them in this process.
#pragma once

#include "engine/reduce/gradient_reducer.h"
#include "engine/reduce/wire.h"

namespace towers::test {

/// The last tower belongs to the second rank, and all others to the first; a single tower to the first. So
/// sums have the bits of one process.
MakeReducer two_ranks(Wire wire = Wire::fp32);

/// What the variable TOWERS_TEST_REDUCER asks for: `two_ranks`; or none, the program's own.
MakeReducer reducer_of_this_run();

} // namespace towers::test
