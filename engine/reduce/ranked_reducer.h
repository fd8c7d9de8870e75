// The reducer of one of several ranks: adds up what its own towers deliver, sends each slice of it to the
// slice's owner, updates its own slices from what all ranks have sent, and sends the new parameters to all
// others. What goes to another host, the ranks of a host add up first; what comes from there, one of them
// passes on. Bucket by bucket, while the towers compute.
#pragma once

#include "engine/ranks/courier.h"
#include "engine/reduce/host_reducer.h"
#include "engine/reduce/partial_sum.h"
#include "engine/reduce/slice_stream.h"
#include "engine/reduce/wire.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace towers {

class RankedReducer final : public GradientReducer, private Carried {
public:
    /// See MakeReducer. `courier` must outlive it. `links`: the same on all ranks.
    RankedReducer(Courier& courier, const RankLinks& links, const OpenOptions& host, Milestones::Spin spin,
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
        std::vector<float> gradients;   ///< its sums of this rank's own slices, then of those it collects
        std::vector<Bfloat16> bfloats;  ///< of own slices as they come from another host, if rounded
        SliceStream give, take;         ///< sums of gradients: to it, from it
        SliceStream hand_over, receive; ///< new parameters: to it, from it
        bool is_near;                   ///< on the same host
        bool is_input;                  ///< of own slices
    };
    void add_peer(unsigned peer);
    std::vector<Slice> given_by(unsigned rank, unsigned to) const;
    std::vector<RankPart::Input> inputs_of(std::span<const unsigned> ranks, ArenaRange part) const;
    std::vector<std::size_t> active_inputs(std::span<const unsigned> ranks) const;
    std::size_t place_of(std::size_t offset) const;
    RankPart part_of_this_rank();
    State advance(Transport& transport) override;
    void stop() override;
    struct Gates;
    bool send_and_receive(Transport& transport, Peer& peer, const Gates& ready);
    std::span<const std::byte> sums_of(const Peer& peer, const Slice& slice) const;
    bool is_rounded(const Peer& peer, const Slice& slice) const;
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
    const std::size_t buckets_;
    const std::size_t rounded_; ///< bytes of the variables, from the first on, that may be rounded
    const Routes routes_;
    const std::vector<Slice> slices_; ///< of all ranks
    const std::vector<Slice> own_;    ///< that this rank updates
    /// Of owners on other hosts, whose sums this rank makes of its host's and whose parameters it passes on.
    const std::vector<Slice> collected_;
    const std::vector<StagedByTower> towers_;
    std::vector<std::size_t> active_;     ///< of the step
    std::atomic<std::uint64_t> step_ = 0; ///< counted from 1, failed attempts too
    PartialSum sum_;                      ///< of this rank's towers
    std::map<unsigned, Peer> peers_;
    std::map<std::size_t, std::size_t> places_; ///< of its own and collected slices in Peer::gradients, by
                                                ///< their offset, in bytes
    std::vector<unsigned> inputs_;       ///< ranks that give it sums of its own slices, itself among them
    std::optional<PartialSum> host_sum_; ///< of the collected slices; none: no rank is beside this one
    HostReducer updater_;
    Milestones complete_, exchanged_, drained_;
    std::size_t given_ = 0, collected_given_ = 0; ///< buckets that the updater and the host's sum have
    std::atomic<bool> failed_ = false, stepping_ = false, is_gone_ = false;
    std::atomic<std::uint64_t> failed_step_ = 0; ///< the last that a peer has declared so
    bool spoiled_ = false;                       ///< a peer did not send what was expected
    mutable std::mutex lists_mutex_;             ///< of the following
    /// Messages with lists: by the number of the step and the exchange, of each rank.
    std::map<std::pair<std::uint64_t, std::size_t>, std::vector<Bytes>> lists_;
    std::size_t listed_ = 0; ///< exchanges of the step for which this rank's lists are sent
};

} // namespace towers
