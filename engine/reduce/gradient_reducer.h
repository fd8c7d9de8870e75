// What the gradients of several towers go through in a step: they are added up and the state is updated, by
// this process alone or by several.
#pragma once

#include "backends/backend.h"
#include "backends/milestones.h"
#include "engine/execution/session.h"
#include "engine/plan/state.h"
#include "engine/reduce/exchange.h"
#include "engine/step/update.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace towers {

/// Where a tower leaves its gradients and finds the trained parameters and, if there are any, the frozen
/// variables, laid out as StateLayout's variables.
struct StagedByTower {
    std::span<const float> gradients;
    std::span<float> parameters;
};

/// What a process brings to the end of a step.
struct StepVote {
    /// Each local tower's part of the global batch's cross entropy.
    std::span<const float> cross_entropies = {};
    bool counts = true;         ///< false: the step must change nothing, as when a tower has failed
    std::uint32_t requests = 0; ///< bits of the caller's own, such as to stop
    /// Whatever the caller has to tell the other processes about the step.
    std::span<const std::byte> report = {};
};

/// What all processes have agreed on.
struct StepVerdict {
    StepResults results;    ///< valid if the step counts
    bool counts;            ///< all have voted so
    std::uint32_t requests; ///< of any process
    /// Every process's report, in the order of the ranks; of one process alone: none.
    std::vector<std::vector<std::byte>> reports;
};

/// The results of a step from the towers' parts of its cross entropy, in their order, its weight decay, and
/// how many gradients are infinite or NaN.
StepResults sum_up(std::span<const float> cross_entropies, double decay, double nonfinite);

/// A step is begin(), give() until all buckets are given, and end(). The state is replaced as a whole at the
/// end, so whatever fails before leaves it. The towers' threads call hand_over(), give_lists() and merge(),
/// and wait for complete() and exchanged(); one thread makes all other calls. Of several processes, all make
/// the calls from begin() to end(), load(), save() and save_gradients() together: load() takes what the first
/// process gives, and only that one gets something from the other two. Calls may throw DeviceError.
class GradientReducer {
public:
    GradientReducer() = default;
    GradientReducer(const GradientReducer&) = delete; // threads hold its address
    GradientReducer& operator=(const GradientReducer&) = delete;
    virtual ~GradientReducer() = default;

    /// Begins a step in which these local towers, in ascending order, deliver gradients.
    virtual void begin(const StepNumbers& numbers, std::span<const std::size_t> towers) = 0;

    /// Each local tower has delivered its first `buckets` buckets. May work on them; must not wait for other
    /// processes.
    virtual void give(std::size_t buckets) = 0;
    /// How many buckets are complete, at whatever time: their new parameters are in the towers' staging
    /// memory, and may be used if the step ends well. Fails if the step cannot.
    virtual const Milestones& complete() const = 0;

    /// The local towers have handed over their lists at an exchange of the step; counted from 0. Any thread,
    /// and several may say so. `lists` holds during the call.
    virtual void give_lists(std::size_t exchange, std::span<const Exchange* const> lists) = 0;
    /// For how many exchanges, from the first on, merge() can be called. Fails if the step cannot end.
    virtual const Milestones& exchanged() const = 0;
    /// Merges everybody's lists for one local tower. `lists`: the local towers'.
    virtual void merge(std::size_t exchange, std::span<const Exchange* const> lists,
                       const Exchange& target) const = 0;

    /// A local tower has failed: whoever waits for complete() or exchanged() need not wait any more. The step
    /// must still be ended.
    virtual void fail() = 0;
    /// Ends the step, for all processes alike, and waits for them. The new state replaces the old one if the
    /// step counts for all, and no gradient and no loss is infinite or NaN. Throws what has failed in the
    /// step's work.
    virtual StepVerdict end(const StepVote& vote) = 0;

    /// Copies all trained parameters and frozen variables to a local tower's staging memory. The tower's
    /// thread calls it, before the tower delivers its first bucket.
    virtual void hand_over(std::size_t tower) const = 0;

    /// The whole state, laid out as StateLayout says, wherever its parts are.
    virtual void load(std::span<const float> state) = 0;
    virtual void save(std::span<float> state) = 0;
    /// Computes again the global batch's gradients of the last ended step, with weight decay and clipping.
    virtual void save_gradients(std::span<float> gradients) = 0;
};

/// Makes a reducer. `host`: how to open devices of the host; `host.threads` includes the caller's. `spin`:
/// how long its threads wait before they sleep. `buckets`: the ranges of the gradients that a tower delivers
/// one at a time. What `spec` refers to must outlive the reducer.
using MakeReducer = std::function<std::unique_ptr<GradientReducer>(
    const OpenOptions& host, Milestones::Spin spin, const UpdateSpec& spec, std::vector<StagedByTower> towers,
    std::span<const ArenaRange> buckets)>;

} // namespace towers
