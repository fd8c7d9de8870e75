#include "engine/reduce/ranked_reducer.h"

#include "engine/ranks/message.h"

#include <algorithm>
#include <cstring>

namespace towers {
namespace {

constexpr int sums_tag = Courier::first_free_tag, parameters_tag = sums_tag + 1;
/// Messages of a stream that are on their way at once.
constexpr std::size_t window = 64;

std::vector<Slice> of(const std::vector<Slice>& slices, unsigned owner) {
    std::vector<Slice> its;
    std::ranges::copy_if(slices, std::back_inserter(its),
                         [owner](const Slice& slice) { return slice.owner == owner; });
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

bool SliceStream::advance(Transport& transport, std::size_t buckets,
                          const std::function<std::span<std::byte>(const Slice&)>& memory,
                          const std::function<void(const Slice&, std::size_t)>& ended) {
    bool moved = false;
    while (true) {
        while (begun_ < slices_.size() && slices_[begun_].bucket < buckets && on_their_way_.size() < window) {
            const std::span<std::byte> its = memory(slices_[begun_++]);
            on_their_way_.push_back(
                {sends_ ? transport.send(peer_, tag_, its) : transport.receive(peer_, tag_, its),
                 its.size()});
            moved = true;
        }
        if (on_their_way_.empty()) return moved;
        auto& [transfer, bytes] = on_their_way_.front();
        if (!transport.test(transfer, sends_ ? nullptr : &bytes)) return moved;
        ended(slices_[ended_++], bytes);
        on_their_way_.pop_front();
        moved = true;
    }
}

RankSum::RankSum(const OpenOptions& host, Milestones::Spin spin, std::vector<std::span<const float>> towers,
                 std::size_t buckets, std::span<const Slice> slices, unsigned rank, std::size_t rounded)
    : towers_(std::move(towers)), ready_(buckets), buckets_(buckets, spin) {
    const bool adds = towers_.size() > 1;
    if (!adds && (towers_.empty() || rounded == 0)) return;
    if (adds) {
        host_ = open_host_device({.threads = 1, .exact_products = host.exact_products});
        memory_ = host_->allocate(towers_[0].size_bytes(), Memory::staging);
    }
    if (rounded > 0) rounded_.emplace(rounded / sizeof(float));
    for (const Slice& slice : slices) {
        const auto& [offset, bytes] = slice.range;
        const bool rounds = offset < rounded && slice.owner != rank;
        for (std::size_t done = 0; done < bytes && (adds || rounds); done += block_bytes) {
            blocks_.push_back({{offset + done, std::min(block_bytes, bytes - done)}, slice.bucket, rounds});
            buckets_.add_block(slice.bucket);
        }
        ready_[slice.bucket] = blocks_.size();
    }
    const std::size_t most = adds ? cpu_threads(host.threads) : 1; // rounding alone is little work
    team_ = std::make_unique<Team>(std::clamp<std::size_t>(blocks_.size() / 4, 1, most), spin,
                                   [this](std::size_t, std::size_t block, std::size_t) { work_on(block); });
}

void RankSum::begin(const StepNumbers& numbers, std::span<const std::size_t> towers) {
    active_.assign(towers.begin(), towers.end());
    works_ = active_.size() > 1 || (active_.size() == 1 && rounded_);
    buckets_.restart(works_);
    if (rounded_) rounded_->begin(numbers.loss_scale);
    if (works_) team_->begin();
}

void RankSum::give(std::size_t buckets) {
    buckets_.give(buckets);
    if (works_ && buckets > 0) team_->release(ready_[buckets - 1]);
}

/// Adds up in the order of the towers.
void RankSum::work_on(std::size_t index) {
    const Block& block = blocks_[index];
    if (active_.size() > 1)
        add_in_order(
            active_.size(), [&](std::size_t i) { return part(towers_[active_[i]], block.range); },
            part(memory_.host<float>(), block.range));
    if (block.rounds) rounded_->round(sums(), block.range);
    buckets_.count_done(block.bucket);
}

void RankSum::fail() {
    if (works_) team_->cancel();
    buckets_.fail();
}

void RankSum::end() {
    if (works_) team_->end();
}

void RankSum::keep() {
    if (works_ && rounded_) rounded_->keep();
}

void RankSum::forget() {
    if (rounded_) rounded_->forget();
}

std::span<const float> RankSum::sums() const {
    if (active_.empty()) return {};
    return active_.size() == 1 ? towers_[active_[0]] : memory_.host<float>();
}

RankedReducer::Peer::Peer(unsigned peer, const std::vector<Slice>& its, const std::vector<Slice>& own,
                          std::size_t rounded)
    : gradients(bytes_of(own) / sizeof(float)), bfloats(rounded > 0 ? gradients.size() : 0),
      give(peer, sums_tag, true, messages_of(its, rounded)),
      take(peer, sums_tag, false, messages_of(own, rounded)),
      hand_over(peer, parameters_tag, true, messages_of(own)),
      receive(peer, parameters_tag, false, messages_of(its)) {}

RankedReducer::RankedReducer(Courier& courier, Wire wire, const OpenOptions& host, Milestones::Spin spin,
                             const UpdateSpec& spec, const std::vector<StagedByTower>& towers,
                             std::span<const ArenaRange> buckets)
    : courier_(courier), layout_(*spec.layout), buckets_(buckets.size()),
      rounded_(wire == Wire::bf16 ? layout_.trained_bytes : 0),
      slices_(cut_at(layout_.trained_bytes,
                     deal_slices(buckets, courier.size(), spec.optimizer->clip_norm.has_value()))),
      towers_(towers), sum_(
                           host, spin,
                           [&] {
                               std::vector<std::span<const float>> gradients;
                               for (const StagedByTower& tower : towers)
                                   gradients.emplace_back(tower.gradients);
                               return gradients;
                           }(),
                           buckets.size(), slices_, courier.rank(), rounded_),
      updater_(host, spin, spec, part_of_this_rank(towers), buckets), complete_(spin), exchanged_(spin) {
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

/// Makes what the peers send, too.
RankPart RankedReducer::part_of_this_rank(const std::vector<StagedByTower>& towers) {
    RankPart rank;
    rank.own = of(slices_, courier_.rank());
    for (unsigned peer = 0; peer < courier_.size(); ++peer) {
        if (peer == courier_.rank()) {
            rank.inputs.push_back({sum_.of_several(), false});
            continue;
        }
        const auto [made, _] = peers_.try_emplace(peer, peer, of(slices_, peer), rank.own, rounded_);
        rank.inputs.push_back({made->second.gradients, true});
    }
    for (const StagedByTower& tower : towers) {
        rank.inputs.push_back({tower.gradients, false});
        rank.outputs.push_back(tower.parameters);
    }
    std::size_t place = 0;
    for (const Slice& slice : messages_of(rank.own, rounded_)) {
        places_[slice.range.offset] = place;
        place += slice.range.bytes;
    }
    return rank;
}

void RankedReducer::begin(const StepNumbers& numbers, std::span<const std::size_t> towers) {
    active_.assign(towers.begin(), towers.end());
    for (Milestones* each : {&complete_, &drained_}) each->restart();
    failed_ = spoiled_ = false;
    given_ = 0;
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
    sums_ = sum_.sums();
    std::vector<std::size_t> inputs; // in the order of the ranks
    for (unsigned rank = 0; rank < courier_.size(); ++rank)
        if (rank != courier_.rank() || active_.size() > 1)
            inputs.push_back(rank);
        else if (active_.size() == 1)
            inputs.push_back(courier_.size() + active_[0]);
    updater_.begin(numbers, inputs, active_);
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
    std::size_t arrived = sum_.complete().count(), complete = updater_.complete().count();
    // Each rank begins with another peer, so that not all send to the same one.
    for (unsigned i = 1; i < courier_.size(); ++i) {
        const unsigned rank = (courier_.rank() + i) % courier_.size();
        Peer& peer = peers_.at(rank);
        moved = send_and_receive(transport, peer) || moved;
        arrived = std::min(arrived, peer.take.buckets(buckets_));
        complete = std::min(complete, peer.receive.buckets(buckets_));
    }
    if (!failed_ && !spoiled_) {
        complete_.advance(complete);
        // This thread takes part in the work, so it starts one bucket at a time: other messages may have
        // come.
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
bool RankedReducer::send_and_receive(Transport& transport, Peer& peer) {
    const bool failed = failed_;
    const auto to_send = [](std::span<const std::byte> its) {
        return std::span(const_cast<std::byte*>(its.data()), its.size()); // a transport only reads it
    };
    const auto count = [this](const Slice&, std::size_t bytes) { courier_.count_sent(bytes); };
    bool moved = peer.take.advance(
        transport, buckets_,
        [&](const Slice& slice) {
            const ArenaRange place{places_.at(slice.range.offset), slice.range.bytes};
            return slice.range.offset < rounded_
                       ? std::as_writable_bytes(part(std::span(peer.bfloats), place))
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
    moved = peer.give.advance(
                transport, failed ? buckets_ : sum_.complete().count(),
                [&](const Slice& slice) {
                    return to_send(failed ? std::span<const std::byte>() : sums_of(slice));
                },
                count) ||
            moved;
    moved = peer.hand_over.advance(
                transport, failed ? buckets_ : updater_.complete().count(),
                [&](const Slice& slice) {
                    return to_send(failed ? std::span<const std::byte>()
                                          : std::as_bytes(part(updater_.next_state(), slice.range)));
                },
                count) ||
            moved;
    return moved;
}

/// What this rank sends of its sums; empty: it has no share.
std::span<const std::byte> RankedReducer::sums_of(const Slice& slice) const {
    if (sums_.empty()) return {};
    if (slice.range.offset < rounded_) return std::as_bytes(part(sum_.rounded(), slice.range));
    return std::as_bytes(part(sums_, slice.range));
}

/// `bytes`: that have come.
void RankedReducer::take_sums(Peer& peer, const Slice& slice, std::size_t bytes) {
    const ArenaRange place{places_.at(slice.range.offset), slice.range.bytes};
    const std::span<float> its = part(std::span(peer.gradients), place);
    if (bytes == 0) // a rank without a share, or a step that fails
        std::ranges::fill(its, 0.f);
    else if (slice.range.offset < rounded_)
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
    attempt([&] { sum = updater_.end_work(); });
    Bytes own;
    if (drained) {
        Writer message;
        message.put(VoteHead{.counts = vote.counts && !failure,
                             .requests = vote.requests,
                             .towers = vote.cross_entropies.size(),
                             .report_bytes = vote.report.size(),
                             .sum = sum});
        message.put(vote.cross_entropies);
        message.put(vote.report);
        own = message.take();
    }
    const std::vector<Bytes> votes = courier_.gather_all(Topic::vote, own); // throws if a peer is gone
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
    }
    return verdict;
}

void RankedReducer::load(std::span<const float> state) {
    sum_.forget();
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
    for (const Slice& slice : of(slices_, courier_.rank())) own.push_back(slice.range);
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
