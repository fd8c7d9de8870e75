// What a plateau schedule remembers of the test passes.
#pragma once

#include <cstdint>
#include <optional>

namespace towers {

struct Plateau {
    std::uint64_t step = 0;          ///< updates done before the last pass that counts
    std::optional<double> best = {}; ///< value of the metric so far
    unsigned bad = 0;                ///< passes in a row that were not better
    unsigned cooldown = 0;           ///< further passes that are not to count as bad
    double factor = 1;               ///< of the learning rate

    bool operator==(const Plateau&) const = default;
};

} // namespace towers
