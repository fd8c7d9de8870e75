#include "engine/reduce/ranked_reducer.h"

#include "engine/ranks/message.h"

#include <algorithm>
#include <cstring>

namespace towers {
namespace {

constexpr int sums_tag = Courier::first_free_tag, parameters_tag = sums_tag + 1;
std::vector<Slice> of(const std::vector<Slice>& slices, unsigned owner) {
    std::vector<Slice> its;
    std::ranges::copy_if(slices, std::back_inserter(its),
                         [owner](const Slice& slice) { return slice.owner == owner; });
    return its;
}

std::vector<Slice> collected_by(unsigned rank, const std::vector<Slice>& slices, const Routes& routes) {
    std::vector<Slice> its;
    if (routes.ranks_beside(rank).size() == 1) return its;
    std::ranges::copy_if(slices, std::back_inserter(its), [&](const Slice& slice) {
        return !routes.share_host(rank, slice.owner) && routes.next(rank, slice.owner) == slice.owner;
    });
    return its;
}

std::size_t bytes_of(std::span<const Slice> slices) {
    std::size_t bytes = 0;
    for (const Slice& slice : slices) bytes += slice.range.bytes;
    return bytes;
}

/// Stands for all exchanges of a step, in which a rank without a share has no lists.
constexpr std::size_t every_exchange = SIZE_MAX;

struct ListsHead {
    std::uint64_t step, exchange, towers;
};

struct VoteHead {
    std::uint64_t counts, requests, towers, report_bytes;
    HostReducer::Sum sum;
};

} // namespace

/// How many buckets of what a rank sends are ready.
struct RankedReducer::Gates {
    std::size_t near_sums, far_sums, near_parameters, far_parameters;
};

RankedReducer::RankedReducer(Courier& courier, const RankLinks& links, const OpenOptions& host,
                             Milestones::Spin spin, const UpdateSpec& spec,
                             const std::vector<StagedByTower>& towers, std::span<const ArenaRange> buckets)
    : courier_(courier), layout_(*spec.layout), buckets_(buckets.size()),
      rounded_(links.wire == Wire::bf16 ? layout_.trained_bytes : 0), routes_(courier.size(), links.hosts),
      slices_(cut_at(layout_.trained_bytes,
                     deal_slices(buckets, courier.size(), spec.optimizer->clip_norm.has_value()))),
      own_(of(slices_, courier.rank())), collected_(collected_by(courier.rank(), slices_, routes_)),
      towers_(towers), sum_(
                           host, spin,
                           [&] {
                               std::vector<RankPart::Input> inputs;
                               for (const StagedByTower& tower : towers)
                                   inputs.push_back({tower.gradients, false});
                               return inputs;
                           }(),
                           buckets.size(), slices_,
                           rounded_ > 0 && routes_.ranks_beside(courier.rank()).size() == 1
                               ? [this](const Slice& slice) { return slice.owner != courier_.rank(); }
                               : std::function<bool(const Slice&)>(),
                           rounded_),
      updater_(host, spin, spec, part_of_this_rank(), buckets), complete_(spin), exchanged_(spin) {
    if (!collected_.empty())
        host_sum_.emplace(
            host, spin,
            inputs_of(routes_.ranks_beside(courier.rank()), {bytes_of(own_), bytes_of(collected_)}),
            buckets.size(), collected_,
            rounded_ > 0 ? [](const Slice&) { return true; } : std::function<bool(const Slice&)>(), rounded_);
    courier_.on(Topic::lists, [this](unsigned from, const Bytes& message) { take_lists(from, message); });
    courier_.on(Topic::step_failed, [this](unsigned, const Bytes& message) {
        failed_step_ = std::max(failed_step_.load(), Reader(message).get<std::uint64_t>());
        if (stepping_ && failed_step_ == step_) fail_waiting();
    });
    courier_.add(*this);
}

RankedReducer::~RankedReducer() {
    courier_.remove(*this);
    courier_.on(Topic::lists, nullptr);
    courier_.on(Topic::step_failed, nullptr);
}

/// What a rank sends to another one of sums of gradients.
std::vector<Slice> RankedReducer::given_by(unsigned rank, unsigned to) const {
    std::vector<Slice> its;
    std::ranges::copy_if(slices_, std::back_inserter(its), [&](const Slice& slice) {
        return slice.owner != rank && routes_.next(rank, slice.owner) == to;
    });
    return its;
}

void RankedReducer::add_peer(unsigned peer) {
    const unsigned rank = courier_.rank();
    const bool is_near = routes_.share_host(rank, peer), is_input = routes_.next(peer, rank) == rank;
    const std::vector<Slice> to = given_by(rank, peer), from = given_by(peer, rank);
    const std::size_t rounded = is_near ? 0 : rounded_;
    peers_.try_emplace(
        peer, Peer{.gradients = std::vector<float>(bytes_of(from) / sizeof(float)),
                   .bfloats = std::vector<Bfloat16>(rounded > 0 ? bytes_of(from) / sizeof(float) : 0),
                   .give = {peer, sums_tag, true, messages_of(to, rounded)},
                   .take = {peer, sums_tag, false, messages_of(from, rounded)},
                   .hand_over = {peer, parameters_tag, true, messages_of(from)},
                   .receive = {peer, parameters_tag, false, messages_of(to)},
                   .is_near = is_near,
                   .is_input = is_input});
}

/// Sums of these ranks, in their order, then this rank's towers; of the others' this part of what they send.
std::vector<RankPart::Input> RankedReducer::inputs_of(std::span<const unsigned> ranks, ArenaRange its) const {
    std::vector<RankPart::Input> inputs;
    for (const unsigned rank : ranks)
        if (rank == courier_.rank())
            inputs.push_back({sum_.of_several(), false});
        else
            inputs.push_back({part(std::span<const float>(peers_.at(rank).gradients), its), true});
    for (const StagedByTower& tower : towers_) inputs.push_back({tower.gradients, false});
    return inputs;
}

/// Those of inputs_of() that the step has. A sum of one tower alone is what that tower gives.
std::vector<std::size_t> RankedReducer::active_inputs(std::span<const unsigned> ranks) const {
    std::vector<std::size_t> active;
    for (std::size_t i = 0; i < ranks.size(); ++i)
        if (ranks[i] != courier_.rank() || active_.size() > 1)
            active.push_back(i);
        else if (active_.size() == 1)
            active.push_back(ranks.size() + active_[0]);
    return active;
}

/// Makes what the peers send, too.
RankPart RankedReducer::part_of_this_rank() {
    for (unsigned rank = 0; rank < courier_.size(); ++rank) {
        if (rank != courier_.rank()) add_peer(rank);
        if (rank == courier_.rank() || peers_.at(rank).is_input) inputs_.push_back(rank);
    }
    std::size_t place = 0;
    for (const std::vector<Slice>* const slices : {&own_, &collected_})
        for (const Slice& slice : *slices) {
            places_[slice.range.offset] = place;
            place += slice.range.bytes;
        }
    RankPart rank{.inputs = inputs_of(inputs_, {0, bytes_of(own_)}), .outputs = {}, .own = own_};
    for (const StagedByTower& tower : towers_) rank.outputs.push_back(tower.parameters);
    return rank;
}

/// In Peer::gradients, in bytes, of what is at this offset of the variables.
std::size_t RankedReducer::place_of(std::size_t offset) const {
    const auto [begin, place] = *std::prev(places_.upper_bound(offset));
    return place + (offset - begin);
}

void RankedReducer::begin(const StepNumbers& numbers, std::span<const std::size_t> towers) {
    active_.assign(towers.begin(), towers.end());
    for (Milestones* each : {&complete_, &drained_}) each->restart();
    failed_ = spoiled_ = false;
    given_ = collected_given_ = 0;
    {
        const std::lock_guard lock(lists_mutex_);
        ++step_;
        exchanged_.restart();
        listed_ = 0;
        std::erase_if(lists_, [this](const auto& entry) { return entry.first.first < step_; });
    }
    for (auto& [rank, peer] : peers_)
        for (SliceStream* each : {&peer.give, &peer.take, &peer.hand_over, &peer.receive}) each->restart();
    sum_.begin(numbers, towers);
    if (host_sum_) host_sum_->begin(numbers, active_inputs(routes_.ranks_beside(courier_.rank())));
    updater_.begin(numbers, active_inputs(inputs_), active_); // in the order of the ranks
    stepping_ = true;
    if (failed_step_ == step_) fail_waiting();
    if (is_gone_) stop();
    if (active_.empty())
        give_lists(every_exchange, {});
    else
        look_for_lists();
    courier_.wake();
}

void RankedReducer::give(std::size_t buckets) {
    sum_.give(buckets);
    courier_.wake();
}

/// Advances the step on the communication thread.
Carried::State RankedReducer::advance(Transport& transport) {
    if (!stepping_) return State::idle;
    if (updater_.complete().has_failed() && !failed_) fail();
    bool moved = false;
    Gates ready{sum_.complete().count(), 0, 0, updater_.complete().count()};
    ready.far_sums = host_sum_ ? host_sum_->complete().count() : ready.near_sums;
    ready.near_parameters = ready.far_parameters;
    for (const auto& [_, peer] : peers_) // what another host has updated is passed on
        if (!peer.is_near)
            ready.near_parameters = std::min(ready.near_parameters, peer.receive.buckets(buckets_));
    std::size_t arrived = ready.near_sums, arrived_near = ready.near_sums, complete = ready.far_parameters;
    // Each rank begins with another peer, so that not all send to the same one.
    for (unsigned i = 1; i < courier_.size(); ++i) {
        const unsigned rank = (courier_.rank() + i) % courier_.size();
        Peer& peer = peers_.at(rank);
        moved = send_and_receive(transport, peer, ready) || moved;
        arrived = std::min(arrived, peer.take.buckets(buckets_));
        if (peer.is_near) arrived_near = std::min(arrived_near, peer.take.buckets(buckets_));
        complete = std::min(complete, peer.receive.buckets(buckets_));
    }
    if (!failed_ && !spoiled_) {
        complete_.advance(complete);
        // This thread takes part in the work, so it starts one bucket at a time: other messages may have
        // come.
        if (host_sum_ && arrived_near > collected_given_) {
            host_sum_->give(++collected_given_);
            moved = true;
        }
        if (arrived > given_) {
            updater_.give(++given_);
            moved = true;
        }
    }
    const bool done = std::ranges::all_of(peers_, [](const auto& entry) {
        const Peer& peer = entry.second;
        return peer.give.is_done() && peer.take.is_done() && peer.hand_over.is_done() &&
               peer.receive.is_done();
    });
    if (done && (failed_ || complete_.count() == buckets_)) {
        stepping_ = false;
        drained_.advance(1);
        return State::moved;
    }
    const bool towers_work = sum_.complete().count() < buckets_;
    return moved ? State::moved : towers_work ? State::waiting : State::urgent;
}

/// A step that has failed sends empty messages, so that every message that a peer expects comes.
bool RankedReducer::send_and_receive(Transport& transport, Peer& peer, const Gates& ready) {
    const bool failed = failed_;
    const auto to_send = [](std::span<const std::byte> its) {
        return std::span(const_cast<std::byte*>(its.data()), its.size()); // a transport only reads it
    };
    const auto count = [this](const Slice&, std::size_t bytes) { courier_.count_sent(bytes); };
    bool moved = peer.take.advance(
        transport, buckets_,
        [&](const Slice& slice) {
            const ArenaRange place{place_of(slice.range.offset), slice.range.bytes};
            return is_rounded(peer, slice) ? std::as_writable_bytes(part(std::span(peer.bfloats), place))
                                           : std::as_writable_bytes(part(std::span(peer.gradients), place));
        },
        [&](const Slice& slice, std::size_t bytes) { take_sums(peer, slice, bytes); });
    moved = peer.receive.advance(
                transport, buckets_,
                [&](const Slice& slice) {
                    return std::as_writable_bytes(part(updater_.next_state(), slice.range));
                },
                [&](const Slice& slice, std::size_t bytes) { take_parameters(slice, bytes); }) ||
            moved;
    const std::size_t sums = failed ? buckets_ : peer.is_near ? ready.near_sums : ready.far_sums;
    moved = peer.give.advance(
                transport, sums,
                [&](const Slice& slice) {
                    return to_send(failed ? std::span<const std::byte>() : sums_of(peer, slice));
                },
                count) ||
            moved;
    const std::size_t parameters = failed         ? buckets_
                                   : peer.is_near ? ready.near_parameters
                                                  : ready.far_parameters;
    moved =
        peer.hand_over.advance(
            transport, parameters,
            [&](const Slice& slice) {
                return to_send(failed || spoiled_ ? std::span<const std::byte>()
                                                  : std::as_bytes(part(updater_.next_state(), slice.range)));
            },
            count) ||
        moved;
    return moved;
}

bool RankedReducer::is_rounded(const Peer& peer, const Slice& slice) const {
    return !peer.is_near && slice.range.offset < rounded_;
}

/// What this rank sends to a peer of its sums, or of its host's; empty: it has no share.
std::span<const std::byte> RankedReducer::sums_of(const Peer& peer, const Slice& slice) const {
    const PartialSum& sum = host_sum_ && !peer.is_near ? *host_sum_ : sum_;
    if (sum.sums().empty()) return {};
    if (is_rounded(peer, slice)) return std::as_bytes(part(sum.rounded(), slice.range));
    return std::as_bytes(part(sum.sums(), slice.range));
}

/// `bytes`: that have come.
void RankedReducer::take_sums(Peer& peer, const Slice& slice, std::size_t bytes) {
    const ArenaRange place{place_of(slice.range.offset), slice.range.bytes};
    const std::span<float> its = part(std::span(peer.gradients), place);
    if (bytes == 0) // a rank without a share, or a step that fails
        std::ranges::fill(its, 0.f);
    else if (is_rounded(peer, slice))
        widen(part(std::span<const Bfloat16>(peer.bfloats), place), its);
}

/// Passes what a peer has updated on to the towers.
void RankedReducer::take_parameters(const Slice& slice, std::size_t bytes) {
    if (bytes < slice.range.bytes) spoiled_ = true; // the peer's word that the step fails comes, too
    if (failed_ || spoiled_ || slice.range.offset >= layout_.trained_bytes) return;
    for (const std::size_t tower : active_)
        std::ranges::copy(part(std::span<const float>(updater_.next_state()), slice.range),
                          part(towers_[tower].parameters, slice.range).begin());
}

/// A peer is gone, so no step can end.
void RankedReducer::stop() {
    is_gone_ = true;
    fail_waiting();
    drained_.fail();
}

void RankedReducer::fail_waiting() {
    failed_ = true;
    sum_.fail();
    if (host_sum_) host_sum_->fail();
    updater_.fail();
    for (Milestones* each : {&complete_, &exchanged_}) each->fail();
}

void RankedReducer::fail() {
    if (failed_.exchange(true)) return;
    fail_waiting();
    Writer message;
    message.put(step_.load());
    courier_.send_all(Topic::step_failed, message.take());
}

void RankedReducer::give_lists(std::size_t exchange, std::span<const Exchange* const> lists) {
    {
        const std::lock_guard lock(lists_mutex_);
        if (exchange < listed_) return;
        listed_ = exchange == every_exchange ? every_exchange : exchange + 1;
        Writer message;
        message.put(ListsHead{step_, exchange, lists.size()});
        for (const Exchange* each : lists) {
            message.put(each->values);
            for (const std::span<const float> given : each->given) message.put(given);
        }
        courier_.send_all(Topic::lists, message.take());
    }
    look_for_lists();
}

/// On the communication thread.
void RankedReducer::take_lists(unsigned from, const Bytes& message) {
    const auto head = Reader(message).get<ListsHead>();
    {
        const std::lock_guard lock(lists_mutex_);
        std::vector<Bytes>& lists = lists_[{head.step, head.exchange}];
        lists.resize(courier_.size());
        lists[from] = message;
    }
    look_for_lists();
}

/// Counts the exchanges for which everybody's lists are there.
void RankedReducer::look_for_lists() {
    const std::lock_guard lock(lists_mutex_);
    std::size_t there = exchanged_.count();
    const auto is_there = [this](std::size_t exchange) {
        for (unsigned rank = 0; rank < courier_.size(); ++rank)
            if (rank != courier_.rank() && lists_of(rank, exchange).empty() &&
                lists_of(rank, every_exchange).empty())
                return false;
        return true;
    };
    if (listed_ == every_exchange) return; // nobody here waits
    while (there < listed_ && is_there(there)) ++there;
    exchanged_.advance(there);
}

/// A rank's message about an exchange of the step; empty: it has not come.
std::span<const std::byte> RankedReducer::lists_of(unsigned rank, std::size_t exchange) const {
    const auto found = lists_.find({step_, exchange});
    return found == lists_.end() ? std::span<const std::byte>() : found->second[rank];
}

void RankedReducer::merge(std::size_t exchange, std::span<const Exchange* const> lists,
                          const Exchange& target) const {
    std::vector<Exchange> others;
    std::vector<const Exchange*> all;
    {
        const std::lock_guard lock(lists_mutex_);
        std::vector<std::size_t> firsts; // of each rank among the others
        for (unsigned rank = 0; rank < courier_.size(); ++rank) {
            firsts.push_back(others.size());
            if (lists_of(rank, exchange).empty()) continue; // this rank's are `lists`
            Reader reader(lists_of(rank, exchange));
            const auto head = reader.get<ListsHead>();
            for (std::uint64_t tower = 0; tower < head.towers; ++tower) {
                const auto values = reader.get<double>();
                Exchange its{target.merge, values, {}, {}};
                for (std::size_t list = 0; list < its.given.size(); ++list)
                    its.given[list] = reader.get<float>(target.given[list].size());
                others.push_back(its);
            }
        }
        firsts.push_back(others.size());
        for (unsigned rank = 0; rank < courier_.size(); ++rank) {
            if (rank == courier_.rank()) all.insert(all.end(), lists.begin(), lists.end());
            for (std::size_t i = firsts[rank]; i < firsts[rank + 1]; ++i) all.push_back(&others[i]);
        }
    }
    towers::merge(all, target); // the messages stay until the next step begins
}

StepVerdict RankedReducer::end(const StepVote& vote) {
    // A step that only measures times does not count either, but ends as any other.
    if (!vote.counts && complete_.count() < buckets_) fail();
    HostReducer::Sum sum;
    std::exception_ptr failure;
    const auto attempt = [&](auto&& work) {
        try {
            work();
        } catch (...) {
            if (!failure) failure = std::current_exception();
            fail();
        }
    };
    attempt([&] { sum_.end(); });
    const bool drained = drained_.wait_for(1) == Milestones::Outcome::passed;
    attempt([&] {
        if (host_sum_) host_sum_->end();
    });
    attempt([&] { sum = updater_.end_work(); });
    // Else a peer is gone, and the others must wait for a vote until they learn it, even if theirs are here.
    if (!drained) courier_.check();
    Writer message;
    message.put(VoteHead{.counts = vote.counts && !failure,
                         .requests = vote.requests,
                         .towers = vote.cross_entropies.size(),
                         .report_bytes = vote.report.size(),
                         .sum = sum});
    message.put(vote.cross_entropies);
    message.put(vote.report);
    const std::vector<Bytes> votes = courier_.gather_all(Topic::vote, message.take());
    if (failure) std::rethrow_exception(failure);
    StepVerdict verdict{{}, true, 0, {}};
    std::vector<float> cross_entropies;
    HostReducer::Sum all;
    for (const Bytes& each : votes) {
        Reader reader(each);
        const auto head = reader.get<VoteHead>();
        verdict.counts = verdict.counts && head.counts != 0;
        verdict.requests |= std::uint32_t(head.requests);
        all.decay += head.sum.decay;
        all.nonfinite += head.sum.nonfinite;
        const std::span<const float> its = reader.get<float>(head.towers);
        cross_entropies.insert(cross_entropies.end(), its.begin(), its.end());
        const std::span<const std::byte> report = reader.get<std::byte>(head.report_bytes);
        verdict.reports.emplace_back(report.begin(), report.end());
    }
    if (!verdict.counts) return verdict;
    verdict.results = sum_up(cross_entropies, all.decay, all.nonfinite);
    if (verdict.results.finite) {
        updater_.replace();
        sum_.keep();
        if (host_sum_) host_sum_->keep();
    }
    return verdict;
}

void RankedReducer::load(std::span<const float> state) {
    sum_.forget();
    if (host_sum_) host_sum_->forget();
    if (courier_.rank() == 0) {
        const auto bytes = std::as_bytes(state);
        courier_.send_all(Topic::state, {bytes.begin(), bytes.end()});
        return updater_.load(state);
    }
    const Bytes bytes = courier_.receive(0, Topic::state);
    updater_.load({reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)});
}

void RankedReducer::save(std::span<float> state) {
    const std::vector<ArenaRange> own = updater_.own_parts();
    if (courier_.rank() > 0) return send_parts(own, updater_.state());
    updater_.save(state);
    take_parts(state);
}

void RankedReducer::save_gradients(std::span<float> gradients) {
    std::vector<ArenaRange> own;
    for (const Slice& slice : own_) own.push_back(slice.range);
    std::vector<float> memory;
    if (courier_.rank() > 0) memory.resize(layout_.updated_bytes / sizeof(float));
    const std::span<float> whole = courier_.rank() > 0 ? std::span(memory) : gradients;
    updater_.save_gradients(whole);
    if (courier_.rank() > 0)
        send_parts(own, whole);
    else
        take_parts(whole);
}

/// Sends parts to rank 0.
void RankedReducer::send_parts(std::span<const ArenaRange> parts, std::span<const float> whole) {
    Writer message;
    for (const ArenaRange& range : parts) {
        message.put(range);
        message.put(part(whole, range));
    }
    courier_.send(0, Topic::state, message.take());
}

/// Puts the parts of all other ranks into their places.
void RankedReducer::take_parts(std::span<float> whole) {
    for (unsigned rank = 1; rank < courier_.size(); ++rank) {
        const Bytes message = courier_.receive(rank, Topic::state);
        for (Reader reader(message); reader.has_more();) {
            const auto range = reader.get<ArenaRange>();
            std::ranges::copy(reader.get<float>(range.bytes / sizeof(float)), part(whole, range).begin());
        }
    }
}

} // namespace towers
