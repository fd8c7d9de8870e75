// Measures the ways in which a device can run a launch, side by side.
#pragma once

#include "backends/device.h"
#include "engine/plan/plan.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// A launch of a plan, whose pointers are the plan's tensors.
struct PlannedLaunch {
    const Launch* launch;
    const Plan* plan;
};

/// Whether a launch can run on random tensors, again and again: it reads only float32 tensors and changes
/// none of them.
bool is_measurable(const PlannedLaunch& planned);

/// A way to run a launch.
struct Measured {
    Candidate candidate;
    std::optional<double> us; ///< median time; none: the device refused to record it
    double error = 0;         ///< ||its results - the plainest one's|| / ||the plainest one's||
    bool right = false;       ///< as far as rounding explains the error
};

/// Runs each of a launch's candidates on the same random tensors, in turn. The last one is the plainest, by
/// which the results of the others are judged. `choices`: those that the device was opened with; they are the
/// same afterwards. Times are on the device's clock, if it has one. Throws OutOfMemory if memory does not
/// suffice for the plainest, and DeviceError if the device fails.
std::vector<Measured> measure(Device& device, Choices& choices, const PlannedLaunch& planned,
                              std::span<const Candidate> candidates);

} // namespace towers
