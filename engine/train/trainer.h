// Takes training steps on one tower or several.
#pragma once

#include "backends/backend.h"
#include "engine/data/batch_reader.h"
#include "engine/data/feed.h"
#include "engine/data/sampler.h"
#include "engine/execution/feeding.h"
#include "engine/inference/evaluation.h"
#include "engine/inference/metric.h"
#include "engine/recipes/batch_tables.h"
#include "engine/recipes/quirks.h"
#include "engine/recipes/recipe.h"
#include "engine/reduce/wire.h"
#include "engine/replica/tower_ranks.h"
#include "engine/replica/tower_set.h"
#include "engine/shares/shares.h"
#include "engine/trace/trace.h"
#include "engine/train/assignment.h"
#include "engine/train/data_watch.h"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace towers {

class Courier;
class Tuning;

struct TrainerOptions {
    std::vector<std::string> towers; ///< device ids, one per tower; a device may appear more than once
    unsigned global_batch;           ///< examples per step, all towers together
    SharePolicy shares;
    unsigned micro_batch = 0; ///< the most examples that a tower computes at once; 0: as many as fit
    /// Whether the other towers continue when a device fails.
    bool outlive_devices = false;
    Patience patience = Patience(); ///< with towers that do not answer; then they have failed
    /// Called if a lone tower does not answer; see TowerSetOptions.
    std::function<void(const DeviceError&)> give_up = {};
    double learning_rate;
    std::uint64_t seed;
    bool distort, shuffle;
    /// With which to begin; none: that of first_loss_scale(open.precision), if any.
    std::optional<LossScale> loss_scale = {};
    FeedOptions feed = {};
    Quirks quirks;
    OpenOptions open;
    std::shared_ptr<Tuning> tuning = {}; ///< of the towers' devices; may be null
    std::shared_ptr<Trace> trace = {};   ///< may be null; records what towers and host do in each step
    /// Opens the towers' devices by their ids; a test may supply its own.
    std::function<std::unique_ptr<Device>(std::string_view, const OpenOptions&)> open_device =
        towers::open_device;
    MakeReducer make_reducer = {}; ///< see TowerSetOptions
    /// If the run has several ranks: `towers` are those of all, such as `1/cuda:0`, and this process opens
    /// its own. The courier must outlive the trainer.
    struct Ranks {
        Courier& courier;
        TowerRanks towers;
        RankLinks links = {}; ///< the same on all
    };
    std::optional<Ranks> ranks = {};
};

/// The result of one step. Losses are those of the parameters before its update.
struct StepReport {
    std::uint64_t step;     ///< counted from 0
    std::uint64_t examples; ///< seen before it
    double learning_rate;
    float loss;                          ///< mean over the global batch, with weight decay
    float cross_entropy;                 ///< the same without weight decay
    std::vector<unsigned> shares;        ///< each tower's examples
    std::vector<unsigned> micro_batches; ///< in which each computed them; see SharesFrom
    std::vector<float> tower_losses;     ///< each tower's own over its share, with weight decay; NaN if idle
    std::optional<float> loss_scale;     ///< of its gradients; none: without loss scaling
    double host_seconds;                 ///< of the calling thread, without waiting for towers or data
    /// One line for the user about a change of the towers, a new lowest loss scale, or data; or empty.
    std::string notice;
};

/// The result of a test pass.
/// Where the test examples may have several labels, evaluation.correct counts those that have exactly the
/// labels found.
struct TestReport {
    std::uint64_t step;     ///< updates done: the parameters are those of the step with this number
    std::uint64_t examples; ///< of the training, seen before it
    unsigned classes;       ///< that the network tells apart
    Evaluation evaluation;
    MetricValues metrics;
    std::string notice; ///< one line for the user if something about the towers has changed; or empty
};

/// A tower's work since the start.
struct TowerUse {
    unsigned share = 0; ///< of the last step
    std::uint64_t examples = 0;
    TowerTimes times; ///< of all steps; the rest of the steps' seconds the tower waited for the host
};

/// One tower's part of a step.
struct TowerStep {
    std::size_t tower;
    double learning_rate;
    KeptBatch batch; ///< its share, or the global batch if it depends on the others' examples
};

/// A loss or gradient is infinite or NaN. The parameters are those from before the step.
struct Diverged : std::runtime_error {
    TowerStep of; ///< the tower that made it so
    Diverged(const std::string& message, TowerStep step) : std::runtime_error(message), of(std::move(step)) {}
};

class Trainer {
public:
    /// Opens the devices, brings the data to them unless it is streamed, and starts from the recipe's initial
    /// values for the seed. Streamed data must outlive the trainer. Throws DeviceError, InputError when the
    /// data does not fit the recipe's model or cannot be read, and UsageError when model or data cannot be
    /// used as the options ask. `tests`: the examples for test(); null: none. Towers that stream them keep
    /// them.
    Trainer(const Recipe& recipe, const TrainerOptions& options, const DataSource& data,
            const std::shared_ptr<const DataSource>& tests = nullptr);
    Trainer(const Trainer&) = delete; // its towers hold its address
    Trainer& operator=(const Trainer&) = delete;

    const Recipe& recipe() const { return recipe_; }
    const TrainerOptions& options() const { return options_; } ///< as given, with the first loss scale
    const StateLayout& layout() const { return layout_; }
    std::size_t tower_count() const { return towers_->size(); }
    TowerFacts facts(std::size_t tower) const { return towers_->facts(tower); }
    const Tower* own_tower(std::size_t tower) const { return towers_->own(tower); } ///< see TowerSet::own()
    /// Whether the tower's device has failed, and the others go on without it.
    bool has_lost(std::size_t tower) const { return assignment_.has_lost(tower); }
    /// The threads that read streamed data; 0: the devices hold it.
    unsigned readers() const { return reader_ ? reader_->readers() : 0; }
    /// Of the next step.
    std::vector<unsigned> shares() const { return assignment_.shares(step_); }
    /// Of the last step.
    std::vector<unsigned> last_shares() const { return towers_->shares(); }
    /// How the towers took them, to be recorded with a checkpoint. No shares if they are not known yet.
    SharesFrom taken() const;

    /// The work of each tower and of the host since the start, and the seconds of all steps. A step that
    /// was begun before the one before it had ended takes from then on.
    const std::vector<TowerUse>& use() const { return use_; }
    const HostTimes& host_use() const { return host_use_; }
    double seconds() const { return seconds_; }

    void load(const TrainingState& state);
    TrainingState save();

    std::uint64_t steps_done() const { return step_; }
    /// The total number of steps, including those done, that complete `epochs` passes over the data.
    std::uint64_t steps_until(double epochs) const;

    /// With automatic shares and towers of unknown speed: has each tower compute a few examples, whose
    /// results are not used, and chooses the first shares. Changes no state. Returns a line for the user, or
    /// nothing. step() calls this first if nobody has. Stops trying when `stop`, which may be null, becomes
    /// true. Throws DeviceError, and InputError when data cannot be read.
    std::string probe(const std::atomic<bool>* stop = nullptr);

    /// Has TrainerOptions::tuning make the choices for the shares of this process's towers in the next step,
    /// after probe() and before the first step. Changes no state. Stops when `stop`, which may be null,
    /// becomes true. Throws DeviceError.
    void tune(const std::atomic<bool>* stop = nullptr);

    /// Takes a step. With loss scaling, one whose gradients are not finite though its loss is changes nothing
    /// and is taken again with half the scale, down to 1. Throws Diverged, with the state from before the
    /// step; DeviceError, with several towers with that state; and InputError, with that state, when data
    /// cannot be read. `another`: the caller will call step() next. Then a device that works by itself may
    /// get that step before this one has ended, which changes no bits.
    StepReport step(bool another = false);

    /// Whether the last step() has begun the next one. Then nothing but step() may be called that reads or
    /// changes the state or a step's results: load(), save(), gradients(), tune(), test() or summarize();
    /// they throw std::logic_error.
    bool is_ahead() const { return towers_->is_ahead(); }

    /// Evaluates the moving averages, or with `raw` or without averages the variables, on all test examples.
    /// The towers divide them by the last step's shares. Changes nothing that a step depends on, and no
    /// times. If a device fails, the others repeat the pass, as in step(). Returns nothing if `stop`, which
    /// may be null, becomes true. `with_scores`: also the metrics that need them. Throws DeviceError.
    std::optional<TestReport> test(bool raw, const std::atomic<bool>* stop = nullptr,
                                   bool with_scores = false);

    /// Histograms of the variables, of the last step's gradients, and of what layers make of its first
    /// examples, as many as its first tower computes at once: see plan_state_histograms() and
    /// plan_activation_histograms(). `data`: of the training. Changes nothing that a step depends on, and no
    /// times. Throws DeviceError, and InputError when data cannot be read.
    std::vector<Histogram> summarize(const DataSource& data);

    /// On another rank than the first: does what rank 0's trainer does, until that is gone; no other call may
    /// be made. Throws PeerGone, and what step() throws but DeviceError of a tower that the others outlive.
    void follow(const std::atomic<bool>* stop);

    /// Has a plateau schedule count the test pass, if it is one and has not counted it; before the next step.
    /// Returns a line about another learning rate, or nothing.
    std::string judge(const TestReport& report, const Metric& metric);

    /// The notice of a test pass that `stop` has ended, once; or empty.
    std::string take_notice() { return std::exchange(notice_, {}); }

    /// The last step's gradients of the mean loss over the global batch, laid out as layout()'s variables.
    /// For a statistic, its value in that step. Lost in a test pass.
    std::vector<float> gradients();

private:
    bool follows() const;
    bool tune_own(const std::atomic<bool>* stop);
    std::unique_ptr<Device> open_device(std::size_t tower);
    std::string tower_process(std::size_t tower, DeviceInfo info) const;
    std::unique_ptr<TowerSet> open_towers(const DataSource& data,
                                          const std::shared_ptr<const DataSource>& tests);
    void open_reader(const DataSource& data, Devices devices);
    std::vector<Example> test_examples();
    /// Fills in what the predictions come to.
    void sum_up(const TestPass& pass, TestReport& report) const;
    /// A step's place in the training.
    struct Place {
        std::uint64_t step = 0, examples = 0; ///< before it
    };
    Place next() const { return {step_ + 1, examples_ + options_.global_batch}; }
    double learning_rate(const Place& place) const;
    StepNumbers numbers(const Place& place) const;
    Batch batch();
    Batch resident_batch(const Place& place);
    std::optional<StepWork> next_work();
    std::vector<SeenTower> seen() const;
    void check_not_ahead(const char* verb) const;
    void take_step(StepReport& report, bool another);
    bool lower_loss_scale(const StepResults& results);
    std::string tell_lower_loss_scale(float before, float now);
    [[noreturn]] void throw_diverged(const Culprit& culprit, double learning_rate, const Batch& batch) const;

    Recipe recipe_;
    TrainerOptions options_;
    std::uint64_t records_;
    StateLayout layout_;
    Sampler sampler_;
    ResidentFeed feed_;
    TableMaker make_tables_;
    /// The examples of this step and the next, if the devices hold the data, by the parity of the step's
    /// number.
    struct ExamplesOfStep {
        std::optional<std::uint64_t> first; ///< the examples' position
        std::vector<Example> examples;
        BatchTables tables;
    };
    std::array<ExamplesOfStep, 2> examples_of_step_;
    std::optional<BatchReader> reader_; ///< if the data is streamed
    DataWatch data_watch_{0, ""};
    std::shared_ptr<const LabelSets> test_labels_; ///< if test examples may have several
    std::size_t test_classes_ = 0;                 ///< of the test data
    std::optional<ResidentFeed> tests_;
    PhaseClock clock_;
    Assignment assignment_;
    bool to_probe_;                    ///< before the first step
    std::vector<Share> as_taken_;      ///< how the step that has been begun is taken
    std::string notice_;               ///< of a test pass that was stopped
    std::unique_ptr<TowerSet> towers_; ///< its threads use the reader
    std::uint64_t step_ = 0, examples_ = 0;
    std::optional<LossScale> loss_scale_; ///< of the next step
    std::optional<Plateau> plateau_;      ///< of a plateau schedule
    float lowest_loss_scale_ = 0;         ///< since a state was loaded
    std::uint64_t loaded_ = 0;            ///< step_ when a state was loaded
    std::vector<TowerUse> use_;
    HostTimes host_use_;
    double seconds_ = 0;
    Clock::time_point ended_; ///< the last step
};

} // namespace towers
