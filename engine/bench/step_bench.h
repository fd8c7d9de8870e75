// Times whole training steps, the way a user trains.
#pragma once

#include "engine/bench/report.h"
#include "engine/train/trainer.h"

#include <vector>

namespace towers {

class StepBench {
public:
    /// Opens the towers' devices. Throws as Trainer does.
    StepBench(const Recipe& recipe, const TrainerOptions& options, const BenchSettings& settings,
              const Dataset& data);

    /// Runs steps that do not count; their time decides how many make a repetition.
    void warm_up();
    /// Warms up short steps again: clocks fall and caches are lost while others are measured.
    void repeat();

    std::uint64_t steps() const { return steps_; } ///< per repetition
    std::vector<unsigned> shares() const;
    /// One value per repetition.
    const std::vector<double>& examples_per_s() const { return examples_per_s_; }
    const std::vector<double>& step_us() const { return step_us_; }
    const std::vector<double>& host_us() const { return host_us_; }

private:
    unsigned global_batch_;
    BenchSettings settings_;
    Trainer trainer_;
    std::uint64_t steps_ = 1;
    double step_seconds_ = 0; ///< of the fastest warm-up step
    std::vector<double> examples_per_s_, step_us_, host_us_;
};

} // namespace towers
