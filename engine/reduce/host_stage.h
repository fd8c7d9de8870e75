// The host's part of a step with several towers: adds up their staged gradients, checks them, updates the
// state and hands the new parameters to the towers, in one pass over memory.
#pragma once

#include "backends/backend.h"
#include "backends/worker.h"
#include "engine/execution/session.h"
#include "engine/reduce/stream.h"
#include "engine/step/update.h"

#include <cstddef>
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

/// Works in blocks that stay in a processor's cache from the sum of the gradients to the hand-over. Each
/// thread has its own `cpu` device, on which it runs the same update plan as a lone tower. Writes the new
/// state into a second buffer, and swaps the buffers at the end of a finite step: a step counts as a whole or
/// not at all.
class HostStage {
public:
    /// `host`: how to open the devices; `host.threads` includes the caller's. `buckets`: the ranges of the
    /// gradients that the towers deliver one at a time.
    HostStage(const OpenOptions& host, const UpdateSpec& spec, std::vector<StagedByTower> towers,
              std::span<const ArenaRange> buckets);

    /// Begins a step in which these towers, in ascending order, deliver gradients.
    void begin(const StepNumbers& numbers, std::span<const std::size_t> towers);

    /// Computes the new state and parameters of a bucket that every tower of the step has delivered. Buckets
    /// come in order. Returns how many buckets are done: their new parameters are in the towers' staging
    /// memory, and may be used if the step ends well. With an optimizer that needs the norm of all gradients,
    /// all buckets are done together with the last one.
    std::size_t update(std::size_t bucket);

    /// Ends the step after the last bucket. The new state replaces the old one unless a gradient or a loss is
    /// infinite or NaN. `cross_entropies`: each tower's part of the global batch's cross entropy.
    StepResults end(std::span<const float> cross_entropies);

    /// Copies all trained parameters and frozen variables to a tower's staging memory.
    void hand_over(std::size_t tower) const;

    std::span<const float> state() const { return states_[current_].host<float>(); }
    void load(std::span<const float> state);
    /// Computes again the global batch's gradients of the last ended step, with weight decay and clipping.
    void save_gradients(std::span<float> gradients);

private:
    /// A block's part of a section of the state.
    struct Piece {
        ArenaRange whole, own; ///< its place in the whole state, and in the block's own
    };
    struct Block {
        ArenaRange range; ///< of the variables
        std::size_t kind; ///< blocks of the same kind share an update plan
        std::vector<Piece> pieces;
    };
    /// A thread's device, memory for a block's gradients and state, and one recorded update per kind of
    /// block.
    struct Updater {
        std::unique_ptr<Device> device; // outlives what it made
        Session session{*device, Session::Place::host};
        std::vector<Recording> updates{};

        std::span<float> host(Arena arena) const { return session.host<float>(arena); }
        std::span<float> gradients(const Block& block) const {
            return host(Arena::gradients).first(block.range.bytes / sizeof(float));
        }
    };
    /// A block's part of the step's results.
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
    std::unique_ptr<Device> host_;    ///< allocates the states, so it outlives them
    std::array<Buffer, 2> states_;
    std::size_t current_ = 0;
    bool replaced_ = false; ///< whether the last step's state was kept
    std::vector<Block> blocks_;
    std::vector<std::size_t> blocks_end_; ///< by bucket: how many blocks it completes
    std::vector<StateLayout> kinds_;
    std::vector<Sum> sums_; ///< of each block
    std::vector<Updater> updaters_;
    std::vector<std::unique_ptr<Worker>> workers_; // last: they use the others
};

} // namespace towers
