// Puts the moments of several clocks on one axis.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>

namespace towers {

/// What is known of how far the host's clock is ahead of a device's, in seconds. A device begins no work
/// before it is submitted and has ended what has been waited for: each submission narrows the bounds. Clocks
/// drift, so bounds hold for the steps in which they were found.
class ClockOffset {
public:
    /// Work that was submitted at `submitted` on the host's clock has begun at `begun` on the device's.
    void begins(std::uint64_t step, double submitted, double begun);
    /// Work that had ended at `ended` on the device's clock when the host knew it at `known`.
    void ends(std::uint64_t step, double ended, double known);
    /// Forgets what earlier steps have told.
    void forget_before(std::uint64_t step);

    /// In the middle of the bounds. Where one bound is missing, the other; 0 if there is none.
    double seconds() const;
    /// Half the distance of the bounds: the most that seconds() can be wrong. Infinite if one is missing.
    double uncertainty() const;

private:
    struct Bounds {
        std::uint64_t step = 0;
        double least = -std::numeric_limits<double>::infinity();
        double most = std::numeric_limits<double>::infinity();
    };
    Bounds& of(std::uint64_t step);
    Bounds all() const;

    std::deque<Bounds> steps_; ///< in order
};

} // namespace towers
