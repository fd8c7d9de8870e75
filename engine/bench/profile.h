// Times every launch and copy of a training step on the device's clock.
#pragma once

#include "engine/bench/report.h"
#include "engine/recipes/recipe.h"
#include "engine/towers/tower.h"

#include <vector>

namespace towers {

/// A single tower's step with a timestamp around each operation. Operations that may run side by side in
/// training run one after another here, so their sum may exceed a step's time. The learning rate is 0, so
/// that every run does the same work.
class StepProfile {
public:
    /// Nothing else may use the device, which must outlive the profile.
    StepProfile(Device& device, const Recipe& recipe, const DataSource& data, unsigned batch);

    /// Runs the step `runs` times; the medians over them are one repetition.
    void repeat(unsigned runs);
    /// Forgets the repetitions so far.
    void reset();

    /// Fills in memory and kernels. Leaves out the kernels when the device has no clock.
    void report(DeviceFigures& figures) const;

private:
    void load(const StateLayout& layout, Feed& feed, unsigned batch);

    Device& device_;
    TrainingPlan plan_;
    std::array<Buffer, arena_count> arenas_;
    Recording recording_;
    std::vector<const Operation*> operations_;      ///< in the order of their timestamps
    std::vector<std::vector<double>> operation_us_; ///< [operation][repetition]
    std::vector<double> sum_us_, timestamp_us_;
};

} // namespace towers
