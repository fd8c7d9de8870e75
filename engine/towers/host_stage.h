// The host's part of a step of several towers: adds up their staged gradients, checks them, updates the state
// and hands the new parameters to the towers, in one pass over memory.
#pragma once

#include "backends/backend.h"
#include "engine/step/update.h"
#include "engine/towers/session.h"
#include "engine/towers/stream.h"
#include "engine/towers/tower.h"
#include "engine/towers/worker.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace towers {

/// Where a tower leaves its gradients and finds the trained parameters, laid out as StateLayout's variables.
struct StagedByTower {
    std::span<const float> gradients;
    std::span<float> parameters;
};

/// Works through the state in blocks, each of which stays in a processor's cache from the sum of its
/// gradients to its hand-over. Each thread runs, on a `cpu` device of its own, the plan of an update that a
/// lone tower runs. The new state goes into a second set, which takes the first one's place at the end of a
/// step that was finite: a step counts whole or not at all.
class HostStage {
public:
    /// `host`: how its devices are opened; `host.threads` counts all threads of the stage, the caller's
    /// included. `buckets`: the ranges of the gradients that the towers deliver one by one.
    HostStage(const OpenOptions& host, const UpdateSpec& spec, std::vector<StagedByTower> towers,
              std::span<const ArenaRange> buckets);

    /// Begins a step in which these towers, in ascending order, deliver gradients.
    void begin(const StepNumbers& numbers, std::span<const std::size_t> towers);

    /// Takes a bucket, which every tower of the step has delivered, to its new state and parameters. Buckets
    /// come in order. Returns how many buckets are done: their new parameters lie in the towers' staging
    /// memory, for use once the step has ended well. An optimizer that needs the norm of all gradients has
    /// all buckets done by the last one.
    std::size_t update(std::size_t bucket);

    /// After the last bucket. The new state counts unless a gradient or a loss is infinite or NaN.
    /// `cross_entropies`: each tower's part of the global batch's.
    StepResults end(std::span<const float> cross_entropies);

    /// Hands a tower all trained parameters.
    void hand_over(std::size_t tower) const;

    std::span<const float> state() const { return states_[current_].host<float>(); }
    void load(std::span<const float> state);
    /// Recomputes the last ended step's gradients of the global batch, weight decay and clipping included.
    void save_gradients(std::span<float> gradients);

private:
    /// The part of a section of the state that belongs to a block.
    struct Piece {
        ArenaRange whole, own; ///< its place in the whole state, and in the block's
    };
    struct Block {
        ArenaRange range; ///< of the variables
        std::size_t kind; ///< blocks that are updated alike share a plan
        std::vector<Piece> pieces;
    };
    /// What a thread works with: a block's gradients and state, and a recording of each kind's update.
    struct Updater {
        std::unique_ptr<Device> device; // outlives what it made
        Session session{*device, Session::Place::host};
        std::vector<Recording> updates{};

        std::span<float> host(Arena arena) const { return session.host<float>(arena); }
        std::span<float> gradients(const Block& block) const {
            return host(Arena::gradients).first(block.range.bytes / sizeof(float));
        }
    };
    /// What a block adds to the step's results.
    struct Sum {
        float decay, nonfinite;
    };

    void cut_into_blocks(std::span<const ArenaRange> buckets);
    void add_block(const ArenaRange& range, StateLayout kind);
    void record_updates(const UpdateSpec& spec);
    void for_each_block(std::size_t first, std::size_t last,
                        const std::function<void(Updater&, std::size_t block, std::size_t next)>& work);
    std::vector<std::span<const float>> inputs_of(const Block& block) const;

    void add_up(const Updater& updater, const Block& block) const;
    void update(Updater& updater, const Block& block, std::span<const float> from) const;
    void hand_over(const Updater& updater, const Block& block, Prefetch& prefetch);

    const StateLayout& layout_;
    std::vector<StagedByTower> towers_;
    std::vector<std::size_t> active_; ///< the towers of the step
    std::unique_ptr<Device> host_;    ///< gives the states, and outlives them
    std::array<Buffer, 2> states_;
    std::size_t current_ = 0;
    bool replaced_ = false; ///< whether the last step's state counted
    std::vector<Block> blocks_;
    std::vector<std::size_t> blocks_end_; ///< of each bucket: how many blocks can be done with it
    std::vector<StateLayout> kinds_;
    std::vector<Sum> sums_; ///< of each block
    std::vector<Updater> updaters_;
    std::vector<std::unique_ptr<Worker>> workers_; // last: they use the others
};

} // namespace towers
