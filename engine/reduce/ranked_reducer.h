// The reducer of one of several ranks: adds up what its own towers deliver, sends each slice of it to the
// slice's owner, updates its own slices from what all ranks have sent, and sends the new parameters to all
// others. Bucket by bucket, while the towers compute.
#pragma once

#include "engine/ranks/courier.h"
#include "engine/reduce/host_reducer.h"
#include "engine/reduce/wire.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace towers {

/// Messages to or from one peer, one for each slice, in the order of the buckets; a few are on their way at
/// once. Of the communication thread.
class SliceStream {
public:
    SliceStream(unsigned peer, int tag, bool sends, std::vector<Slice> slices)
        : peer_(peer), tag_(tag), sends_(sends), slices_(std::move(slices)) {}

    void restart() { begun_ = ended_ = 0; }
    /// Begins what may begin, of slices of the first `buckets` buckets, from or to where `memory` says; an
    /// empty span sends an empty message. Calls `ended` for each message that has ended, with the bytes that
    /// it had. Returns whether something has moved.
    bool advance(Transport& transport, std::size_t buckets,
                 const std::function<std::span<std::byte>(const Slice&)>& memory,
                 const std::function<void(const Slice&, std::size_t)>& ended);
    /// All slices of the first so many buckets have gone or come.
    std::size_t buckets(std::size_t all) const {
        return ended_ == slices_.size() ? all : slices_[ended_].bucket;
    }
    bool is_done() const { return ended_ == slices_.size(); }

private:
    struct OnItsWay {
        Transport::Transfer transfer;
        std::size_t bytes;
    };
    unsigned peer_;
    int tag_;
    bool sends_;
    std::vector<Slice> slices_;
    std::size_t begun_ = 0, ended_ = 0;
    std::deque<OnItsWay> on_their_way_;
};

/// Adds up the gradients of the towers of one rank, so that each byte travels once for all of them, and
/// rounds what travels as bfloat16. With one tower there is nothing to add up, and its own staging memory is
/// sent.
class RankSum {
public:
    /// `slices`: of all ranks, of which this is `rank`. `rounded`: bytes of the variables, from the first on,
    /// whose sums are rounded if another rank owns them.
    RankSum(const OpenOptions& host, Milestones::Spin spin, std::vector<std::span<const float>> towers,
            std::size_t buckets, std::span<const Slice> slices, unsigned rank, std::size_t rounded);

    /// Of the step: these towers, in ascending order.
    void begin(const StepNumbers& numbers, std::span<const std::size_t> towers);
    /// All towers have delivered so many buckets.
    void give(std::size_t buckets);
    /// Buckets whose sums are complete.
    const Milestones& complete() const { return buckets_.complete(); }
    void fail();
    void end();
    /// The step counts, for RoundedSums.
    void keep();
    /// Another state is loaded, to which nothing belongs that was left of earlier steps.
    void forget();
    /// The sums, laid out as the variables; empty: none, as without towers.
    std::span<const float> sums() const;
    /// Those that are rounded, likewise.
    std::span<const Bfloat16> rounded() const { return rounded_->rounded(); }
    /// The memory of sums of several towers; empty: there is one at most.
    std::span<const float> of_several() const {
        return towers_.size() > 1 ? memory_.host<float>() : std::span<const float>();
    }

private:
    void work_on(std::size_t block);

    const std::vector<std::span<const float>> towers_;
    std::vector<std::size_t> active_;
    std::optional<RoundedSums> rounded_; ///< none: nothing is
    bool works_ = false;                 ///< whether there is anything to do in the step
    std::unique_ptr<Device> host_;
    Buffer memory_;
    struct Block {
        ArenaRange range;
        std::size_t bucket;
        bool rounds;
    };
    std::vector<Block> blocks_;
    std::vector<std::size_t> ready_; ///< by bucket: blocks up to its end
    BucketCount buckets_;
    std::unique_ptr<Team> team_; ///< null: there are no blocks
};

class RankedReducer final : public GradientReducer, private Carried {
public:
    /// See MakeReducer. `courier` must outlive it. `wire`: the same on all ranks. Of what comes as bfloat16,
    /// only this rank's own part of a sum is float32; statistics and new parameters are always.
    RankedReducer(Courier& courier, Wire wire, const OpenOptions& host, Milestones::Spin spin,
                  const UpdateSpec& spec, const std::vector<StagedByTower>& towers,
                  std::span<const ArenaRange> buckets);
    ~RankedReducer() override;

    void begin(const StepNumbers& numbers, std::span<const std::size_t> towers) override;
    void give(std::size_t buckets) override;
    const Milestones& complete() const override { return complete_; }
    void give_lists(std::size_t exchange, std::span<const Exchange* const> lists) override;
    const Milestones& exchanged() const override { return exchanged_; }
    void merge(std::size_t exchange, std::span<const Exchange* const> lists,
               const Exchange& target) const override;
    void fail() override;
    StepVerdict end(const StepVote& vote) override;
    void hand_over(std::size_t tower) const override { updater_.hand_over(tower); }
    void load(std::span<const float> state) override;
    void save(std::span<float> state) override;
    void save_gradients(std::span<float> gradients) override;

private:
    /// What comes from and goes to one peer.
    struct Peer {
        Peer(unsigned peer, const std::vector<Slice>& its, const std::vector<Slice>& own,
             std::size_t rounded);
        std::vector<float> gradients;   ///< its sums of this rank's slices, one after another
        std::vector<Bfloat16> bfloats;  ///< as they come, of those that are rounded
        SliceStream give, take;         ///< sums of gradients: to it, from it
        SliceStream hand_over, receive; ///< new parameters: to it, from it
    };
    RankPart part_of_this_rank(const std::vector<StagedByTower>& towers);
    State advance(Transport& transport) override;
    void stop() override;
    bool send_and_receive(Transport& transport, Peer& peer);
    std::span<const std::byte> sums_of(const Slice& slice) const;
    void take_sums(Peer& peer, const Slice& slice, std::size_t bytes);
    void take_parameters(const Slice& slice, std::size_t bytes);
    void fail_waiting();
    void take_lists(unsigned from, const Bytes& message);
    void look_for_lists();
    std::span<const std::byte> lists_of(unsigned rank, std::size_t exchange) const;
    void send_parts(std::span<const ArenaRange> parts, std::span<const float> whole);
    void take_parts(std::span<float> whole);

    Courier& courier_;
    const StateLayout& layout_;
    const std::size_t buckets_, rounded_; ///< see RankSum
    const std::vector<Slice> slices_;     ///< of all ranks
    const std::vector<StagedByTower> towers_;
    std::vector<std::size_t> active_;     ///< of the step
    std::atomic<std::uint64_t> step_ = 0; ///< counted from 1, failed attempts too
    RankSum sum_;
    std::map<unsigned, Peer> peers_;
    std::map<std::size_t, std::size_t> places_; ///< of its own slices among them, by their offset, in bytes
    HostReducer updater_;
    std::span<const float> sums_; ///< of this rank in the step
    Milestones complete_, exchanged_, drained_;
    std::size_t given_ = 0; ///< buckets whose sums of all ranks the updater has
    std::atomic<bool> failed_ = false, stepping_ = false, is_gone_ = false;
    std::atomic<std::uint64_t> failed_step_ = 0; ///< the last that a peer has declared so
    bool spoiled_ = false;                       ///< a peer did not send what was expected
    mutable std::mutex lists_mutex_;             ///< of the following
    /// Messages with lists: by the number of the step and the exchange, of each rank.
    std::map<std::pair<std::uint64_t, std::size_t>, std::vector<Bytes>> lists_;
    std::size_t listed_ = 0; ///< exchanges of the step for which this rank's lists are sent
};

} // namespace towers
