// Summaries of a run for TensorBoard.
#pragma once

#include "engine/data/sampler.h"
#include "engine/data/source.h"
#include "engine/observers/event_file.h"
#include "engine/run/test_record.h"
#include "engine/train/observer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// A moving average that begins with the first value: later ones count 1 - decay each.
class MovingAverage {
public:
    explicit MovingAverage(double decay) : decay_(decay) {}
    void add(double value) {
        sum_ = decay_ * sum_ + (1 - decay_) * value;
        weight_ = decay_ * weight_ + (1 - decay_);
    }
    double value() const { return sum_ / weight_; }

private:
    double decay_, sum_ = 0, weight_ = 0;
};

/// Writes what the tutorials' programs summarize, under the same names, for every `every`th step from step 0
/// on, and the results of test passes. docs/runs.md lists the tags.
class Events final : public Observer {
public:
    /// What is named here must outlive it. `data`: of the training. Throws InputError when it cannot read the
    /// metrics of an earlier start.
    Events(Trainer& trainer, const DataSource& data, const RunDirectory& run, std::uint64_t every);

    std::string place() const override { return file_.place(); }
    bool needs_state(std::uint64_t steps) const override { return steps > 0 && (steps - 1) % every_ == 0; }
    bool observe(const Progress& progress) override;
    bool tested(const TestReport& report) override;
    void sync() override { file_.sync(); }

private:
    void append(std::uint64_t step, const Summary& summary);
    void add_losses(Summary& summary, const StepReport& report);
    void add_rates(Summary& summary, const StepReport& report);
    void add_histograms(Summary& summary, const StepReport& report);
    void add_images(Summary& summary, const StepReport& report);

    Trainer& trainer_;
    const DataSource& data_;
    std::uint64_t every_;
    EventFile file_;
    std::optional<TestedStep> before_; ///< the test pass with the parameters from which this start goes on
    Sampler sampler_;
    MovingAverage total_loss_, cross_entropy_, decay_;
    std::vector<TowerUse> used_; ///< when the last summary was made
    double seconds_;             ///< likewise
    bool told_of_memory_ = false;
};

} // namespace towers
