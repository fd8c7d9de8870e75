// Times every launch and copy of a training step on the device's clock.
#pragma once

#include "engine/bench/report.h"
#include "engine/execution/session.h"
#include "engine/recipes/recipe.h"

#include <vector>

namespace towers {

/// Runs a single tower's step with timestamps around each operation. Operations that may run side by side in
/// training run one after another here, so their sum may exceed a step's time. The learning rate is 0, so
/// that every run does the same work.
class StepProfile {
public:
    /// Nothing else may use the device, which must outlive the profile.
    StepProfile(Device& device, const Recipe& recipe, const DataSource& data, unsigned batch);

    /// One repetition: the medians over `runs` runs of the step.
    void repeat(unsigned runs);
    /// Drops the repetitions so far.
    void reset();

    /// Fills in memory, what multiplications round and, if the device has a clock, kernels.
    void report(DeviceFigures& figures) const;

private:
    Plan plan_;
    Session session_;
    Recording recording_;
    std::vector<const Operation*> operations_;      ///< in the order of their timestamps
    std::vector<std::vector<double>> operation_us_; ///< [operation][repetition]
    std::vector<double> sum_us_, timestamp_us_;
};

} // namespace towers
