// Measures the ways in which a device can run a launch, side by side.
#pragma once

#include "engine/tuning/launch_bench.h"

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace towers {

/// A way to run a launch.
struct Measured {
    Candidate candidate;
    std::optional<double> us; ///< median time; none: the device refused to record it
    /// ||its results - the plainest one's|| / ||the plainest one's||; none: they were not compared
    std::optional<double> error;

    bool is_right() const; ///< as far as rounding explains the error
    bool is_wrong() const { return error && !is_right(); }
};

struct Measuring {
    /// Whether only the fastest one is wanted: what takes twice as long as the fastest so far is not run
    /// again, and only what may be the fastest is compared, the one that it is in the end for certain.
    bool only_fastest = false;
    /// Asked between runs: whether to end early. Null: never.
    std::function<bool()> is_over = {};
};

/// Runs a launch's candidates on the same random tensors, in turn. The last one is the plainest, by which the
/// results of the others are judged. `choices`: those that the device was opened with; they are the same
/// afterwards. Times are on the device's clock, if it has one. Returns nothing if it was over before each had
/// a time. Throws OutOfMemory if memory does not suffice for the plainest, and DeviceError if the device
/// fails.
std::vector<Measured> measure(Device& device, Choices& choices, const PlannedLaunch& planned,
                              std::span<const Candidate> candidates, const Measuring& how = {});

} // namespace towers
