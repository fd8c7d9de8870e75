// A launch of a plan with tensors of its own, to be run again and again.
#pragma once

#include "backends/device.h"
#include "engine/plan/plan.h"

#include <span>
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

class LaunchBench {
public:
    /// Throws OutOfMemory.
    LaunchBench(Device& device, const PlannedLaunch& planned);

    void fill_inputs(bool positive);

    /// A recording of the launch as the device runs it now, so many times.
    Recording record(unsigned launches) const;

    /// The microseconds of each launch of such a recording; on the host's clock, their mean.
    std::vector<double> run(const Recording& recording, unsigned launches) const;

    /// The launch's results. `us`: how long the first of the recording's launches took.
    std::vector<float> results(const Recording& recording, unsigned launches, double& us);

private:
    std::size_t floats_of(bool output) const { return buffers_[output].bytes() / sizeof(float); }

    Device& device_;
    Launch launch_;
    Buffer buffers_[2]; ///< inputs, outputs
};

bool all_finite(std::span<const float> values);
/// ||measured - expected|| / ||expected|| of results, without what the launch leaves unwritten in both.
double error_of(std::span<const float> measured, std::span<const float> expected);

} // namespace towers
