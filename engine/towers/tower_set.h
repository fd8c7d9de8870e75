// The towers of a run, one or several, behind one interface.
#pragma once

#include "backends/backend.h"
#include "engine/step/update.h"
#include "engine/towers/phases.h"
#include "engine/towers/tower.h"

#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace towers {

/// The device of one of several towers failed.
struct TowerFailed : DeviceError {
    std::size_t tower;
    unsigned share; ///< that the tower could not take, such as for want of memory; 0: it failed within a step
    bool lost;
    std::exception_ptr cause; ///< the device's own error

    TowerFailed(const DeviceError& error, std::exception_ptr same, std::size_t its, unsigned wanted = 0)
        : DeviceError(error), tower(its), share(wanted),
          lost(dynamic_cast<const DeviceLost*>(&error) != nullptr), cause(std::move(same)) {}
};

/// What made a step infinite or NaN.
struct Culprit {
    std::size_t tower;
    float loss; ///< the tower's, or of the whole batch
    std::string what;
    bool of_all = false; ///< what the towers make together, each one's being finite; `tower` is any
    /// The examples of the step that decide it: the tower's share, or all where the towers need values of
    /// each other.
    std::size_t first_example = 0, examples = 0;
};

class TowerSet {
public:
    TowerSet() = default;
    TowerSet(const TowerSet&) = delete; // threads know where it is
    TowerSet& operator=(const TowerSet&) = delete;
    virtual ~TowerSet() = default;

    virtual std::size_t size() const = 0;
    virtual const Tower& tower(std::size_t index) const = 0;

    /// Gives each tower its share of the next steps, at least one of which is not 0. After TowerFailed, call
    /// it again before a step.
    virtual void take(std::span<const unsigned> shares) = 0;
    /// Of each tower, as last given.
    virtual std::vector<unsigned> shares() const = 0;

    /// One step with these examples, the first tower's share first. Waits for all towers before an exception
    /// leaves, such as TowerFailed. After one of several towers, and when the results are not finite, the
    /// state is the one from before.
    virtual StepResults step(const StepNumbers& numbers, std::span<const Example> examples) = 0;
    /// The work of a step, to learn its times: leaves the state alone. The shares need not be a whole batch,
    /// and there may be more examples. A lone tower has nothing to learn from it and does nothing.
    virtual void rehearse(const StepNumbers& numbers, std::span<const Example> examples) = 0;

    /// Of a tower in the last step.
    virtual const TowerTimes& times(std::size_t tower) const = 0;
    /// Since the set was made.
    virtual const HostTimes& host_times() const = 0;
    /// Each tower's mean loss over its share in the last step, weight decay included; NaN of an idle tower.
    virtual std::vector<float> losses(const StepResults& results) const = 0;
    /// Of the last step, whose results are not finite.
    virtual Culprit find_culprit(const StepResults& results) const = 0;

    /// The whole state, laid out as StateLayout says.
    virtual void load(std::span<const float> state) = 0;
    virtual void save(std::span<float> state) = 0;
    /// Of the last step: the global batch's gradients, laid out as StateLayout's variables.
    virtual void save_gradients(std::span<float> gradients) = 0;
};

struct TowerSetOptions {
    OpenOptions host; ///< of the stage that several towers share; see HostStage
    /// Seconds, beyond what a step should take, until a tower that gives no answer has failed; see Patience.
    double timeout = std::numeric_limits<double>::infinity();
    /// Called by another thread when a lone tower gives no answer, with its failure; the calling thread
    /// cannot be stopped, so this should end the program. Null: the set waits for ever.
    std::function<void(const DeviceError&)> give_up;
    std::shared_ptr<Trace> trace; ///< null, or gets what the threads do and wait for
    PhaseClock caller;            ///< of the thread that calls step()
};

/// A tower that takes every step alone: the state stays on its device, and its plan, of plan_single_step(),
/// updates it.
std::unique_ptr<TowerSet> make_lone_tower(std::unique_ptr<Tower> tower, const TowerSetOptions& options);

/// Several towers that take a step together: a thread for each, and a HostStage that updates the state. Their
/// plans are of plan_shared_step(). What `update` names must outlive the group. A tower that hangs is kept,
/// with what its thread uses, until the program ends: nothing can stop it.
std::unique_ptr<TowerSet> make_tower_group(std::vector<std::unique_ptr<Tower>> towers,
                                           const UpdateSpec& update, const TowerSetOptions& options);

} // namespace towers
