// The towers of a run, one or several, behind one interface.
#pragma once

#include "backends/backend.h"
#include "backends/watched_device.h"
#include "engine/liveness/patience.h"
#include "engine/reduce/gradient_reducer.h"
#include "engine/replica/summary.h"
#include "engine/replica/tower.h"
#include "engine/replica/tower_facts.h"
#include "engine/step/update.h"
#include "engine/trace/phases.h"

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace towers {

/// The device of one of several towers has failed.
struct TowerFailed : DeviceError {
    std::size_t tower;
    unsigned share; ///< that the tower could not take, as without memory; 0: it failed within a step
    bool lost;      ///< less work at once may help
    std::exception_ptr cause; ///< the device's own error

    TowerFailed(const DeviceError& error, std::exception_ptr same, std::size_t its, unsigned wanted = 0)
        : DeviceError(error), tower(its), share(wanted),
          lost(dynamic_cast<const DeviceLost*>(&error) != nullptr &&
               dynamic_cast<const NoAnswer*>(&error) == nullptr),
          cause(std::move(same)) {}
};

/// The cause of a step that is infinite or NaN.
struct Culprit {
    std::size_t tower;
    float loss; ///< of the tower or of the whole batch
    std::string what;
    bool of_all = false; ///< only the towers' sum is not finite; `tower` is arbitrary
    /// Where in the step it shows first: moments, losses, sums, gradients, or only their sum.
    unsigned stage = 0;
    /// The examples that decide it: the tower's share, or all if towers exchange values.
    std::size_t first_example = 0, examples = 0;
};

/// Towers of other ranks have failed, so the step did not count.
struct OthersFailed : std::runtime_error {
    OthersFailed() : std::runtime_error("a tower of another rank has failed") {}
};

/// What the host gives the towers for a step.
struct StepWork {
    StepNumbers numbers;
    Batch batch; ///< the first tower's share first
};

/// A forward pass over test examples. A tower that hangs keeps its own reference.
struct TestPass {
    std::vector<float> variables;   ///< including statistics, laid out as StateLayout says
    std::vector<Example> examples;  ///< with slots and labels
    Predictions predictions;        ///< of each example, with scores if there is room for them
    const std::atomic<bool>* stop;  ///< ends the pass early; may be null
    std::atomic<bool> over = false; ///< a tower has failed, or was told to stop: the others stop too

    /// Whether a tower should stop before its next batch.
    bool is_over() {
        if (stop != nullptr && *stop) over = true;
        return over;
    }
};

class TowerGroup;

class TowerSet {
public:
    TowerSet() = default;
    TowerSet(const TowerSet&) = delete; // threads hold its address
    TowerSet& operator=(const TowerSet&) = delete;
    virtual ~TowerSet() = default;

    virtual std::size_t size() const = 0;
    virtual TowerFacts facts(std::size_t index) const = 0;
    /// TowerFacts::at_once alone, cheap enough for each step.
    virtual AtOnce at_once(std::size_t index) const = 0;
    virtual const Tower* own(std::size_t index) const = 0; ///< null: of another process

    /// Gives each tower its share; at least one must not be empty. After TowerFailed, call it before the next
    /// step.
    virtual void take(std::span<const Share> shares) = 0;
    /// The examples of the towers' shares as last given.
    virtual std::vector<unsigned> shares() const = 0;

    /// Has each tower make new recordings, because its device's choices have changed. Throws as take().
    virtual void record_again() = 0;

    /// Has `own` measure and choose how the towers' devices run launches, and other ranks do likewise.
    /// Returns whether a choice has changed anywhere. Throws what `own` throws, and TowerFailed.
    virtual bool tune(const std::function<bool()>& own) { return own(); }

    /// Takes a step. Waits for all towers before it throws, for example TowerFailed. The state stays as
    /// before the step if the results are not finite and, with several towers, after an exception. `next`:
    /// the step after it, which a tower that has all examples begins before this one has ended if its device
    /// works by itself; or null.
    virtual StepResults step(const StepWork& work, const StepWork* next) = 0;
    /// Whether the last step() has begun the next one. Then the state is neither before nor after a step, and
    /// the next call must be step() with that work. Never so after results that are not finite.
    virtual bool is_ahead() const = 0;
    /// Does the work of a step to measure its times, and does not change the state. The shares need not add
    /// up to a batch, and there may be more examples. Does nothing for a lone tower, which needs no times.
    virtual void dry_run(const StepNumbers& numbers, const Batch& batch) = 0;

    /// Fills the predictions: the towers, which have loaded the test examples, divide them by their shares
    /// and work at the same time. So the shares alone decide the bits. Changes nothing that a step reads, and
    /// no times. Returns false if it was stopped. Throws as step().
    virtual bool test(const std::shared_ptr<TestPass>& pass) = 0;

    /// Makes the pass's histograms: of the state and the last step's gradients where they are, of the layers
    /// on the first tower that has a share. Changes nothing that a step reads, and no times. Throws as
    /// step().
    virtual void summarize(const std::shared_ptr<SummaryPass>& pass) = 0;

    /// A tower's times in the last step.
    virtual const TowerTimes& times(std::size_t tower) const = 0;
    /// The caller's times since the set was made.
    virtual const HostTimes& host_times() const = 0;
    /// Each tower's mean loss over its share in the last step, with weight decay; NaN if idle.
    virtual std::vector<float> losses(const StepResults& results) const = 0;
    /// The culprit of the last step, whose results must not be finite.
    virtual Culprit find_culprit(const StepResults& results) const = 0;

    /// The whole state, laid out as StateLayout says.
    virtual void load(std::span<const float> state) = 0;
    virtual void save(std::span<float> state) = 0;
    /// The global batch's gradients in the last step, laid out as StateLayout's variables.
    virtual void save_gradients(std::span<float> gradients) = 0;
};

struct TowerSetOptions {
    OpenOptions host;         ///< of the reducer that several towers share
    MakeReducer make_reducer; ///< makes it; null: a HostReducer
    /// Other ranks have towers too: the group tells them of its own in each step.
    bool has_ranks = false;
    Patience patience; ///< with towers that do not answer; then they have failed
    /// Called by another thread, with the failure, if a lone tower does not answer. The calling thread cannot
    /// be stopped, so this should end the program. Null: the set waits forever.
    std::function<void(const DeviceError&)> give_up;
    /// The batch after the current one if its images are there already; else without examples. The towers'
    /// threads call it. Null: devices hold all images.
    std::function<Batch()> next_batch;
    std::shared_ptr<Trace> trace;            ///< may be null; records what the threads do and wait for
    std::vector<std::string> processes = {}; ///< the towers' names there
    PhaseClock caller;                       ///< of the thread that calls step()
};

/// A tower that takes every step alone. Its state is on its device, and its plan, from plan_single_step(),
/// updates it.
std::unique_ptr<TowerSet> make_lone_tower(std::unique_ptr<Tower> tower, const TowerSetOptions& options);

/// Several towers that take steps together: a thread for each, and a reducer that updates the state. Their
/// plans come from plan_shared_step(), and from plan_step_alone() for one that has all examples. What
/// `update` refers to must outlive the group. A tower that hangs is leaked with all that its thread uses,
/// since nothing can stop the thread.
std::unique_ptr<TowerGroup> make_tower_group(std::vector<std::unique_ptr<Tower>> towers,
                                             const UpdateSpec& update, const TowerSetOptions& options);

} // namespace towers
