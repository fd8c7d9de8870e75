#include "engine/bench/step_bench.h"

#include "backends/watched_device.h"
#include "engine/clock.h"

#include <algorithm>
#include <utility>

namespace towers {

TrainerOptions bench_training(std::vector<std::string> towers, unsigned global, std::vector<double> shares,
                              const OpenOptions& open) {
    return {.towers = std::move(towers),
            .global_batch = global,
            .shares = {.automatic = false, .weights = std::move(shares), .recorded = {}},
            .learning_rate = 0.001, // a rate at which no number of steps diverges
            .seed = bench_seed,
            .distort = true,
            .shuffle = true,
            .quirks = {},
            .open = open};
}

StepBench::StepBench(const Recipe& recipe, const TrainerOptions& options, const BenchSettings& settings,
                     const DataSource& data)
    : global_batch_(options.global_batch), settings_(settings), trainer_(recipe, options, data) {}

void StepBench::warm_up() {
    // The first steps compile, allocate and fill caches; with two recordings in turn, a slow device measures
    // four of them kernel by kernel. Afterwards a GPU still needs a while to raise its clock.
    constexpr unsigned least_steps = 4;
    const Clock::time_point begin = Clock::now();
    const auto warm = [&](unsigned done) {
        if (settings_.warm_up) return done >= *settings_.warm_up;
        return done >= least_steps && seconds_since(begin) >= settings_.seconds / 2;
    };
    for (unsigned done = 0; !warm(done); ++done) {
        const Clock::time_point step = Clock::now();
        trainer_.step();
        const double seconds = seconds_since(step);
        step_seconds_ = done == 0 ? seconds : std::min(step_seconds_, seconds);
    }
    const double fitting = step_seconds_ > 0 ? settings_.seconds / step_seconds_ : 1;
    steps_ = settings_.steps.value_or(unsigned(std::clamp(fitting, 1.0, 1e6)));
}

void StepBench::repeat() {
    const Attended attended; // as in a training, whose steps need no second thread
    const double pause = settings_.seconds / 10;
    if (step_seconds_ < pause)
        for (const Clock::time_point begin = Clock::now(); seconds_since(begin) < pause;) trainer_.step();
    std::vector<double> host;
    const std::vector<TowerUse> before = trainer_.use();
    const Clock::time_point begin = Clock::now();
    for (std::uint64_t step = 1; step <= steps_; ++step)
        host.push_back(trainer_.step(step < steps_).host_seconds * 1e6);
    const double seconds = seconds_since(begin);
    examples_per_s_.push_back(double(steps_) * global_batch_ / seconds);
    step_us_.push_back(seconds / double(steps_) * 1e6);
    host_us_.push_back(median_of(host));
    double slowest = 0;
    for (std::size_t i = 0; i < before.size(); ++i)
        slowest = std::max(slowest, trainer_.use()[i].times.work - before[i].times.work);
    beyond_slowest_us_.push_back((seconds - slowest) / double(steps_) * 1e6);
}

std::vector<unsigned> StepBench::shares() const { return trainer_.shares(); }

} // namespace towers
