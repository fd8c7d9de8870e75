// Where the operations of a step run, and how.
#pragma once

#include "engine/train/trainer.h"

#include <cstddef>
#include <string>
#include <vector>

namespace towers {

struct PlacedOperation {
    std::string name;    ///< `conv2 forward`
    std::string kernel;  ///< `copy` and `exchange` are none
    std::string variant; ///< `quads 64x64, 3 parts`; "" of what is no launch, or if the device does not tell
    std::string groups;  ///< workgroups, `12x4x1`; "" likewise
    unsigned times = 1;  ///< a step
    double bytes = 0;    ///< that all of them read and write; see cost_of()
};

/// The operations of towers that do the same.
struct Placement {
    std::vector<std::size_t> towers;
    unsigned share = 0;                      ///< examples of each
    std::vector<PlacedOperation> operations; ///< in the order of the step
};

/// Of this process's towers, all towers' shares of the step being these, in their order; 0: idle, which are
/// left out. Towers do the same if their devices are of one kind.
std::vector<Placement> placements(const Trainer& trainer, const std::vector<unsigned>& shares);

} // namespace towers
