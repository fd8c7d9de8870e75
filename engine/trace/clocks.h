// Places the times of several clocks on one axis.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>

namespace towers {

/// Bounds for the offset of the host's clock from a device's, in seconds. A device cannot begin work before
/// its submission, nor end it after a wait for it has returned; so each submission may narrow the bounds.
/// Clocks drift, so bounds hold only for the steps in which they were found.
class ClockOffset {
public:
    /// Work was submitted at `submitted` on the host's clock and began at `begun` on the device's.
    void begins(std::uint64_t step, double submitted, double begun);
    /// Work ended at `ended` on the device's clock, and the host knew so at `known` on its own.
    void ends(std::uint64_t step, double ended, double known);
    /// Drops the bounds of earlier steps.
    void forget_before(std::uint64_t step);

    /// The middle of the bounds; if one is missing, the other; 0 without any.
    double seconds() const;
    /// The largest error of seconds(): half the distance between the bounds. Infinite if one is missing.
    double uncertainty() const;

private:
    struct Bounds {
        std::uint64_t step = 0;
        double least = -std::numeric_limits<double>::infinity();
        double most = std::numeric_limits<double>::infinity();
    };
    Bounds& of(std::uint64_t step);
    Bounds all() const;

    std::deque<Bounds> steps_; ///< in ascending order
};

} // namespace towers
