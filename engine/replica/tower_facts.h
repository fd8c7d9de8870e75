// A tower as plain data, which is all that is known of one in another process.
#pragma once

#include "backends/device.h"
#include "engine/execution/micro_batching.h"

#include <cstdint>
#include <string>

namespace towers {

class Tower;

/// What a run tells of a tower, in whatever process it is.
struct TowerFacts {
    std::string name; ///< everywhere in the run: its device's id (`cuda:0`), or `1/cuda:0` (rank, device)
    std::string host; ///< of its process; empty: the run has only this process
    DeviceInfo info;
    unsigned share = 0;       ///< in examples, as taken; 0: idle
    AtOnce at_once;           ///< for the share
    std::uint64_t memory = 0; ///< bytes that it uses of its device's
};

/// Of a tower of a run's only process.
TowerFacts facts_of(const Tower& tower);

} // namespace towers
