// The host part of a step of several towers, in one pass over memory: adds up their staged gradients, checks
// them, updates the state and hands the new parameters to the towers.
#pragma once

#include "backends/backend.h"
#include "engine/step/update.h"
#include "engine/towers/stream.h"
#include "engine/towers/tower.h"
#include "engine/towers/worker.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace towers {

/// Where a tower leaves its gradients and finds the trained parameters, laid out as the variables.
struct StagedByTower {
    std::span<const float> gradients;
    std::span<float> parameters;
};

/// Works in blocks that stay in a processor's cache from their sum to their hand-over; each of its threads
/// runs, on a `cpu` device of its own, the plan of an update that a single tower runs. The new state goes
/// into a second set, which takes the first one's place at the end of a step that was finite: a step counts
/// whole or not at all.
class AveragingStage {
public:
    /// `host`: how its devices are opened; the threads are the stage's, the caller's included. `buckets`:
    /// what the towers deliver at once.
    AveragingStage(const OpenOptions& host, const UpdateSpec& spec, std::vector<StagedByTower> towers,
                   std::span<const ArenaRange> buckets);

    /// Begins a step in which these towers, in ascending order, deliver.
    void begin(const StepNumbers& numbers, std::span<const std::size_t> towers);

    /// Adds up a bucket that every one of them has delivered, in their order, and makes the next state of it.
    /// Returns the buckets done: their parameters lie in the towers' staging memory. Those of a step that
    /// proves infinite or NaN later, or is not ended, must not be used further. An optimizer that needs the
    /// norm of all gradients has them all done by the last bucket.
    std::size_t average(std::size_t bucket);

    /// After the last bucket. The new state counts unless a gradient or a loss is infinite or NaN.
    /// `cross_entropies`: each tower's part of the global batch's.
    StepResults end(std::span<const float> cross_entropies);

    /// Hands a tower all trained parameters.
    void hand_over(std::size_t tower) const;

    std::span<const float> state() const { return states_[current_].host<float>(); }
    void load(std::span<const float> state);
    /// Of the last step that has ended: the sums, weight decay and clipping included. Takes another pass.
    void save_gradients(std::span<float> gradients);

private:
    /// Blocks that are updated alike share a plan.
    struct Block {
        ArenaRange range; ///< of the variables
        std::size_t kind;
    };
    /// What a thread works with: a block's gradients and state, and a recording of each kind's update.
    struct Bench {
        std::unique_ptr<Device> device; // outlives what it made
        Session session{*device, Session::Place::host};
        std::vector<Recording> updates{};

        std::span<float> host(Arena arena) const { return session.host<float>(arena); }
    };
    /// What a block adds to the step's results.
    struct Sum {
        float decay, nonfinite;
    };

    void for_each_block(std::size_t first, std::size_t last,
                        const std::function<void(Bench&, std::size_t block, std::size_t next)>& work);
    using Spans = std::vector<std::span<const float>>;
    Spans inputs_of(const Block& block, std::span<const float> from) const;
    void update(Bench& bench, const Block& block, std::span<const float> from);
    void publish(const Bench& bench, const Block& block, Prefetch& prefetch);

    const StateLayout& layout_;
    std::vector<StagedByTower> towers_;
    std::vector<std::size_t> active_;
    std::unique_ptr<Device> host_; ///< gives the states, and outlives them
    std::array<Buffer, 2> states_;
    std::size_t current_ = 0;
    bool replaced_ = false; ///< whether the last step's state counted
    std::vector<Block> blocks_;
    std::vector<std::size_t> blocks_end_; ///< those that can be done with each bucket
    std::vector<StateLayout> kinds_;
    std::vector<Sum> sums_; ///< of each block
    std::vector<Bench> benches_;
    std::vector<std::unique_ptr<Worker>> workers_; // last: they use the others
};

} // namespace towers
