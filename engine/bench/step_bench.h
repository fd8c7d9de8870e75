// Times whole training steps as users run them.
#pragma once

#include "engine/bench/report.h"
#include "engine/train/trainer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace towers {

constexpr std::uint64_t bench_seed = 1;

/// The options of a training for bench. `shares`: weights of the towers' shares of `global` examples; empty:
/// equal.
TrainerOptions bench_training(std::vector<std::string> towers, unsigned global, std::vector<double> shares,
                              const OpenOptions& open);

class StepBench {
public:
    /// Opens the towers' devices. Throws as Trainer does.
    StepBench(const Recipe& recipe, const TrainerOptions& options, const BenchSettings& settings,
              const DataSource& data);

    /// Runs steps that are not measured; their time decides the number of steps in a repetition.
    void warm_up();
    /// One repetition. Warms up again if it is short: while other devices are measured, clocks fall and
    /// caches are lost.
    void repeat();

    std::uint64_t steps() const { return steps_; } ///< per repetition
    std::vector<unsigned> shares() const;
    /// One value per repetition.
    const std::vector<double>& examples_per_s() const { return examples_per_s_; }
    const std::vector<double>& step_us() const { return step_us_; }
    const std::vector<double>& host_us() const { return host_us_; }
    /// With several towers: the time of a step after its slowest tower's own time, by repetition.
    const std::vector<double>& beyond_slowest_us() const { return beyond_slowest_us_; }

private:
    unsigned global_batch_;
    BenchSettings settings_;
    Trainer trainer_;
    std::uint64_t steps_ = 1;
    double step_seconds_ = 0; ///< the fastest warm-up step's
    std::vector<double> examples_per_s_, step_us_, host_us_, beyond_slowest_us_;
};

} // namespace towers
