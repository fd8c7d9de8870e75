// The reducer of one process: adds up the towers' staged gradients, checks them, updates the state and hands
// the new parameters to the towers, in one pass over memory.
#pragma once

#include "engine/reduce/bucket_count.h"
#include "engine/reduce/gradient_reducer.h"
#include "engine/reduce/slices.h"
#include "engine/reduce/stream.h"
#include "engine/reduce/team.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace towers {

/// What a reducer of one of several ranks adds up, updates and hands over.
struct RankPart {
    /// Gradients, some laid out as the variables, and some as own() slices one after another.
    struct Input {
        std::span<const float> gradients;
        bool only_own;

        /// A range of the variables. `place`: of it among the own slices, in bytes.
        std::span<const float> at(const ArenaRange& range, std::size_t place) const {
            return part(gradients, only_own ? ArenaRange{place, range.bytes} : range);
        }
    };
    std::vector<Input> inputs;
    std::vector<std::span<float>> outputs; ///< the towers' StagedByTower::parameters
    std::vector<Slice> own;                ///< the slices that it updates, in the order of the buckets
};

/// So many threads as pay for a state: few for a small one, and not more than there are processors. `asked`:
/// 0: one for each processor.
unsigned reducer_threads(unsigned asked, const StateLayout& layout);

/// Works in blocks that stay in a processor's cache from the sum of the gradients to the hand-over. Each
/// thread has its own `cpu` device, on which it runs the same update plan as a lone tower. Writes the new
/// state into a second buffer, and swaps the buffers at the end of a finite step: a step counts as a whole or
/// not at all.
class HostReducer final : public GradientReducer {
public:
    /// See MakeReducer.
    HostReducer(const OpenOptions& host, Milestones::Spin spin, const UpdateSpec& spec,
                const std::vector<StagedByTower>& towers, std::span<const ArenaRange> buckets);
    /// The part of one of several ranks.
    HostReducer(const OpenOptions& host, Milestones::Spin spin, const UpdateSpec& spec, RankPart rank,
                std::span<const ArenaRange> buckets);

    void begin(const StepNumbers& numbers, std::span<const std::size_t> towers) override;
    /// The same with these inputs, added up in this order, and these outputs.
    void begin(const StepNumbers& numbers, std::span<const std::size_t> inputs,
               std::span<const std::size_t> outputs);
    void give(std::size_t buckets) override;
    /// With an optimizer that needs the norm of all gradients, all buckets are complete together.
    const Milestones& complete() const override { return buckets_.complete(); }
    void give_lists(std::size_t exchange, std::span<const Exchange* const>) override {
        exchanged_.advance(exchange + 1);
    }
    const Milestones& exchanged() const override { return exchanged_; }
    void merge(std::size_t, std::span<const Exchange* const> lists, const Exchange& target) const override {
        towers::merge(lists, target);
    }
    void fail() override;
    StepVerdict end(const StepVote& vote) override;

    void hand_over(std::size_t tower) const override;
    void load(std::span<const float> state) override;
    void save(std::span<float> state) override;
    /// Of several ranks, those of its own slices.
    void save_gradients(std::span<float> gradients) override;

    // For a reducer of several ranks, which writes into the state what others have updated.

    /// What a step adds to the results of all towers.
    struct Sum {
        double decay = 0, nonfinite = 0;
    };
    /// Ends the step's work, without a new state. Throws what has failed in it.
    Sum end_work();
    /// The state that next_state() is replaces the old one.
    void replace();
    std::span<const float> state() const { return states_[current_].host<float>(); }
    std::span<float> next_state() { return states_[1 - current_].host<float>(); }
    /// The parts of the whole state that it updates.
    std::vector<ArenaRange> own_parts() const;

private:
    /// A block's part of a section of the state.
    struct Piece {
        ArenaRange whole, own; ///< its place in the whole state, and in the block's own
    };
    struct Block {
        ArenaRange range;   ///< of the variables
        std::size_t bucket; ///< with which it is done
        std::size_t kind;   ///< blocks of the same kind share an update plan
        std::size_t place;  ///< of its gradients among those of its own slices
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
    void cut_into_blocks(std::span<const Slice> own);
    void add_block(const ArenaRange& range, std::size_t bucket, std::size_t place, StateLayout kind);
    void record_updates(const UpdateSpec& spec);
    void work_on(Updater& updater, std::size_t block, std::size_t next);
    /// What an input gives for a block.
    std::span<const float> given(std::size_t input, const Block& block) const {
        return inputs_[input].at(block.range, block.place);
    }
    std::vector<std::span<const float>> inputs_of(const Block& block) const;
    /// A block's part of the trained variables.
    ArenaRange trained_by(const Block& block) const {
        return {block.range.offset, kinds_[block.kind].trained().bytes};
    }

    void add_up(const Updater& updater, const Block& block) const;
    void update(Updater& updater, const Block& block, std::span<const float> from) const;
    void hand_over(const Updater& updater, const Block& block, Prefetch& prefetch);

    const StateLayout& layout_;
    std::vector<RankPart::Input> inputs_;
    std::vector<std::span<float>> outputs_;
    std::vector<std::size_t> adds_, hands_to_; ///< inputs and outputs of the step
    std::unique_ptr<Device> host_;             ///< allocates the states, so it outlives them
    std::array<Buffer, 2> states_;
    std::size_t current_ = 0;
    bool replaced_ = false; ///< whether the last step's state was kept
    std::vector<Block> blocks_;
    std::vector<std::size_t> ready_; ///< by bucket: how many of these can be updated with it
    std::vector<StateLayout> kinds_;
    struct BlockSum {
        float decay, nonfinite;
    };
    std::vector<BlockSum> sums_; ///< of each block
    std::vector<Updater> updaters_;
    std::span<const float> before_; ///< the state from which save_gradients() starts; else empty
    std::span<float> gradients_;    ///< what it fills
    BucketCount buckets_;
    Milestones exchanged_;
    std::unique_ptr<Team> team_; // last: its threads use the others
};

} // namespace towers
