#include "engine/reduce/host_reducer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace towers {
namespace {

/// A block's gradients and state stay in a core's cache, and a block is long enough that launches cost
/// little.
constexpr std::size_t block_bytes = std::size_t(64) << 10;

/// Plans the update of a block without losses, which end() adds.
Plan plan_block(const UpdateSpec& spec, const StateLayout& layout) {
    Plan plan;
    UpdateSpec of_block = spec;
    of_block.layout = &layout;
    plan_update(plan, of_block, {});
    plan.place();
    return plan;
}

/// Uses the library's copy, which bypasses the cache for a large target.
void copy(std::span<const float> source, std::span<float> target) {
    std::memcpy(target.data(), source.data(), source.size_bytes());
}

std::unique_ptr<Device> open_host(OpenOptions options, unsigned threads) {
    options.threads = threads;
    return open_host_device(options);
}

} // namespace

unsigned reducer_threads(unsigned asked, const StateLayout& layout) {
    constexpr std::size_t worth_a_thread = 4 * block_bytes; // as long as it takes to wake one
    const unsigned most = std::min(cpu_threads(asked), cpu_threads(0));
    return std::clamp(unsigned(layout.updated_bytes / worth_a_thread), 1u, most);
}

HostReducer::HostReducer(const OpenOptions& host, Milestones::Spin spin, const UpdateSpec& spec,
                         std::vector<StagedByTower> towers, std::span<const ArenaRange> buckets,
                         OwnedBlocks owned)
    : layout_(*spec.layout), towers_(std::move(towers)), first_(owned.part == 0), host_(open_host(host, 1)),
      ready_(buckets.size()), undone_(buckets.size()), complete_(spin), exchanged_(spin) {
    const unsigned threads = cpu_threads(host.threads);
    for (Buffer& state : states_) state = host_->allocate(layout_.bytes, Memory::staging);
    const bool at_once = spec.optimizer->clip_norm.has_value(); // one block, with all threads on one device
    if (at_once)
        add_block(layout_.updated(), 0, layout_);
    else
        cut_into_blocks(buckets);
    for (std::size_t i = owned.part; i < blocks_.size(); i += owned.parts) {
        own_.push_back(i);
        ++ready_[at_once ? buckets.size() - 1 : blocks_[i].bucket];
    }
    for (std::size_t bucket = 1; bucket < ready_.size(); ++bucket) ready_[bucket] += ready_[bucket - 1];
    const std::size_t updaters = at_once ? 1 : std::clamp<std::size_t>(own_.size(), 1, threads);
    while (updaters_.size() < updaters) updaters_.push_back({open_host(host, at_once ? threads : 1)});
    sums_.resize(blocks_.size());
    record_updates(spec);
    team_ = std::make_unique<Team>(
        updaters_.size(), spin, [this](std::size_t thread, std::size_t item, std::size_t next) {
            work_on(updaters_[thread], own_[item], next < own_.size() ? own_[next] : blocks_.size());
        });
}

void HostReducer::cut_into_blocks(std::span<const ArenaRange> buckets) {
    for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket)
        for (const ArenaRange& range : make_blocks(layout_, buckets[bucket], block_bytes))
            add_block(range, bucket, layout_of_block(layout_, range));
}

void HostReducer::add_block(const ArenaRange& range, std::size_t bucket, StateLayout kind) {
    const auto found = std::ranges::find_if(kinds_, [&](const StateLayout& other) {
        return other.trained_bytes == kind.trained_bytes && other.variable_bytes == kind.variable_bytes &&
               are_updated_alike(other.variables[0], kind.variables[0]);
    });
    Block block{range, bucket, std::size_t(found - kinds_.begin()), {}};
    for (std::size_t i = 0; i < kind.sections.size(); ++i)
        if (const ArenaRange& own = kind.sections[i].range; own.bytes > 0)
            block.pieces.push_back({{layout_.sections[i].range.offset + range.offset, own.bytes}, own});
    blocks_.push_back(std::move(block));
    if (found == kinds_.end()) kinds_.push_back(std::move(kind));
}

void HostReducer::record_updates(const UpdateSpec& spec) {
    std::vector<Plan> plans;
    for (const StateLayout& kind : kinds_) plans.push_back(plan_block(spec, kind));
    for (Updater& updater : updaters_) {
        for (const Plan& plan : plans) updater.session.hold(plan.bytes());
        for (const Plan& plan : plans) updater.updates.push_back(updater.session.record(plan));
    }
}

void HostReducer::load(std::span<const float> state) {
    copy(state, states_[current_].host<float>());
    if (layout_.frozen().bytes > 0) copy(state, states_[1 - current_].host<float>()); // no step writes them
    replaced_ = false;
}

void HostReducer::hand_over(std::size_t tower) const {
    const auto give = [&](const ArenaRange& range) {
        if (range.bytes > 0) copy(part(state(), range), part(towers_[tower].parameters, range));
    };
    if (first_)
        for (const ArenaRange& range : {layout_.trained(), layout_.frozen()}) give(range);
    else
        for (const std::size_t i : own_) give(trained_by(blocks_[i]));
}

void HostReducer::save(std::span<float> state) {
    if (first_) return copy(this->state(), state);
    for (const std::size_t i : own_)
        for (const Piece& piece : blocks_[i].pieces)
            copy(part(this->state(), piece.whole), part(state, piece.whole));
}

void HostReducer::save_gradients(std::span<float> gradients) {
    before_ = states_[replaced_ ? 1 - current_ : current_].host<float>();
    gradients_ = gradients;
    team_->begin();
    team_->release(own_.size());
    const auto reset = [&] { before_ = {}; };
    try {
        team_->end();
    } catch (...) {
        reset();
        throw;
    }
    reset();
}

void HostReducer::begin(const StepNumbers& numbers, std::span<const std::size_t> towers) {
    active_.assign(towers.begin(), towers.end());
    for (const Updater& updater : updaters_) updater.session.write(numbers);
    replaced_ = false;
    given_ = 0;
    for (std::atomic<std::size_t>& undone : undone_) undone = 1;
    for (const std::size_t block : own_) ++undone_[blocks_[block].bucket];
    complete_.restart();
    exchanged_.restart();
    team_->begin();
}

void HostReducer::give(std::size_t buckets) {
    for (; given_ < buckets; ++given_) count_done(given_);
    if (buckets > 0) team_->release(ready_[buckets - 1]);
}

/// Whoever does the last of a bucket completes it, and those after it that are done already.
void HostReducer::count_done(std::size_t bucket) {
    if (--undone_[bucket] > 0) return;
    std::size_t done = complete_.count();
    while (done < undone_.size() && undone_[done] == 0) ++done;
    complete_.advance(done);
}

void HostReducer::work_on(Updater& updater, std::size_t index, std::size_t next) try {
    const Block& block = blocks_[index];
    add_up(updater, block);
    if (!before_.empty()) {
        update(updater, block, before_);
        return copy(updater.gradients(block), part(gradients_, block.range));
    }
    update(updater, block, state());
    const std::span<const float> results = updater.host(Arena::staged_results);
    sums_[index] = {results[RESULT_TOTAL_LOSS], results[RESULT_NONFINITE]};
    Prefetch prefetch(next < blocks_.size() ? inputs_of(blocks_[next])
                                            : std::vector<std::span<const float>>());
    hand_over(updater, block, prefetch);
    count_done(block.bucket);
} catch (...) {
    complete_.fail(); // the towers wait for it
    throw;
}

void HostReducer::fail() {
    team_->cancel();
    complete_.fail();
    exchanged_.fail();
}

StepVerdict HostReducer::end(const StepVote& vote) {
    if (!vote.counts) fail();
    team_->end();
    StepVerdict verdict{{}, vote.counts, vote.requests};
    if (!vote.counts) return verdict;
    verdict.results = results(vote.cross_entropies);
    replaced_ = verdict.results.finite;
    if (replaced_) current_ = 1 - current_;
    return verdict;
}

StepResults HostReducer::results(std::span<const float> cross_entropies) const {
    double decay = 0, nonfinite = 0;
    float cross_entropy = 0;
    for (const Sum& sum : sums_) {
        decay += sum.decay;
        nonfinite += sum.nonfinite;
    }
    for (const float each : cross_entropies) cross_entropy += each;
    StepResults results{cross_entropy + float(decay), cross_entropy, false};
    results.finite = std::isfinite(results.total_loss) && nonfinite == 0;
    return results;
}

/// Sums the towers' gradients in the order of the towers, not in the order of their arrival.
void HostReducer::add_up(const Updater& updater, const Block& block) const {
    const std::span<float> sum = updater.gradients(block);
    const auto given = [&](std::size_t i) { return part(towers_[active_[i]].gradients, block.range); };
    if (active_.size() == 1) return copy(given(0), sum);
    const std::span<const float> first = given(0), second = given(1);
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] = first[k] + second[k];
    for (std::size_t i = 2; i < active_.size(); ++i) {
        const std::span<const float> more = given(i);
        for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += more[k];
    }
}

/// Updates a copy of the block's part of the state.
void HostReducer::update(Updater& updater, const Block& block, std::span<const float> from) const {
    for (const Piece& piece : block.pieces)
        copy(part(from, piece.whole), part(updater.host(Arena::state), piece.own));
    updater.session.run(updater.updates[block.kind]);
}

/// Copies a block's new state to the second state, and its parameters to the towers.
void HostReducer::hand_over(const Updater& updater, const Block& block, Prefetch& prefetch) {
    const std::span<const float> state = updater.host(Arena::state);
    for (const Piece& piece : block.pieces)
        stream(part(state, piece.own), part(states_[1 - current_].host<float>(), piece.whole), prefetch);
    const ArenaRange trained = trained_by(block);
    if (trained.bytes == 0) return;
    for (const std::size_t i : active_)
        stream(part(state, {0, trained.bytes}), part(towers_[i].parameters, trained), prefetch);
}

/// The memory that a block's update will read, for prefetching.
std::vector<std::span<const float>> HostReducer::inputs_of(const Block& block) const {
    std::vector<std::span<const float>> inputs;
    for (const std::size_t i : active_) inputs.push_back(part(towers_[i].gradients, block.range));
    for (const Piece& piece : block.pieces) inputs.push_back(part(state(), piece.whole));
    return inputs;
}

} // namespace towers
