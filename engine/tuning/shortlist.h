// Which of the ways to run a launch are worth measuring.
#pragma once

#include "backends/launch/choices.h"

#include <cstdint>
#include <span>
#include <vector>

namespace towers {

enum class Effort : std::uint8_t {
    none, ///< measures nothing
    /// Measures on cards, of what the estimate takes for the fastest three, those that its error may have put
    /// in the wrong order.
    automatic,
    quick, ///< measures what the estimate takes for the fastest three
    full,  ///< measures everything
};

/// In the order in which to measure them: the device's own choice, the others by estimate, and at the end the
/// plainest, by which the others are judged. None: the estimate is sure enough. `all`: a launch's candidates,
/// of which there is at least one.
std::vector<Candidate> worth_measuring(std::span<const Candidate> all, Effort effort);

} // namespace towers
