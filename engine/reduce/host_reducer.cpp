#include "engine/reduce/host_reducer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace towers {
namespace {

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

/// The part of the only rank.
RankPart alone(const std::vector<StagedByTower>& towers, std::span<const ArenaRange> buckets) {
    RankPart all;
    for (const StagedByTower& tower : towers) {
        all.inputs.push_back({tower.gradients, false});
        all.outputs.push_back(tower.parameters);
    }
    all.own = deal_slices(buckets, 1, false);
    return all;
}

} // namespace

unsigned reducer_threads(unsigned asked, const StateLayout& layout) {
    constexpr std::size_t worth_a_thread = 4 * block_bytes; // as long as it takes to wake one
    const unsigned most = std::min(cpu_threads(asked), cpu_threads(0));
    return std::clamp(unsigned(layout.updated_bytes / worth_a_thread), 1u, most);
}

HostReducer::HostReducer(const OpenOptions& host, Milestones::Spin spin, const UpdateSpec& spec,
                         const std::vector<StagedByTower>& towers, std::span<const ArenaRange> buckets)
    : HostReducer(host, spin, spec, alone(towers, buckets), buckets) {}

HostReducer::HostReducer(const OpenOptions& host, Milestones::Spin spin, const UpdateSpec& spec,
                         RankPart rank, std::span<const ArenaRange> buckets)
    : layout_(*spec.layout), inputs_(std::move(rank.inputs)), outputs_(std::move(rank.outputs)),
      host_(open_host(host, 1)), ready_(buckets.size()), buckets_(buckets.size(), spin), exchanged_(spin) {
    const unsigned threads = cpu_threads(host.threads);
    for (Buffer& state : states_) state = host_->allocate(layout_.bytes, Memory::staging);
    const bool at_once = spec.optimizer->clip_norm.has_value(); // one block, with all threads on one device
    if (!at_once)
        cut_into_blocks(rank.own);
    else if (!rank.own.empty())
        add_block(layout_.updated(), 0, 0, layout_);
    for (const Block& block : blocks_) buckets_.add_block(block.bucket);
    for (const Block& block : blocks_) ++ready_[at_once ? buckets.size() - 1 : block.bucket];
    for (std::size_t bucket = 1; bucket < ready_.size(); ++bucket) ready_[bucket] += ready_[bucket - 1];
    const std::size_t updaters = std::min<std::size_t>(blocks_.size(), at_once ? 1 : threads);
    while (updaters_.size() < updaters) updaters_.push_back({open_host(host, at_once ? threads : 1)});
    sums_.resize(blocks_.size());
    record_updates(spec);
    team_ = std::make_unique<Team>(std::max<std::size_t>(1, updaters_.size()), spin,
                                   [this](std::size_t thread, std::size_t item, std::size_t next) {
                                       work_on(updaters_[thread], item, std::min(next, blocks_.size()));
                                   });
}

void HostReducer::cut_into_blocks(std::span<const Slice> own) {
    std::size_t place = 0;
    for (const Slice& slice : own)
        for (const ArenaRange& range : make_blocks(layout_, slice.range, block_bytes)) {
            add_block(range, slice.bucket, place, layout_of_block(layout_, range));
            place += range.bytes;
        }
}

void HostReducer::add_block(const ArenaRange& range, std::size_t bucket, std::size_t place,
                            StateLayout kind) {
    const auto found = std::ranges::find_if(kinds_, [&](const StateLayout& other) {
        return other.trained_bytes == kind.trained_bytes && other.variable_bytes == kind.variable_bytes &&
               are_updated_alike(other.variables[0], kind.variables[0]);
    });
    Block block{range, bucket, std::size_t(found - kinds_.begin()), place, {}};
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
    for (const ArenaRange& range : {layout_.trained(), layout_.frozen()})
        if (range.bytes > 0) copy(part(state(), range), part(outputs_[tower], range));
}

void HostReducer::save(std::span<float> state) { copy(this->state(), state); }

std::vector<ArenaRange> HostReducer::own_parts() const {
    std::vector<ArenaRange> parts;
    for (const Block& block : blocks_)
        for (const Piece& piece : block.pieces) parts.push_back(piece.whole);
    return parts;
}

void HostReducer::save_gradients(std::span<float> gradients) {
    before_ = states_[replaced_ ? 1 - current_ : current_].host<float>();
    gradients_ = gradients;
    team_->begin();
    team_->release(blocks_.size());
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
    begin(numbers, towers, towers);
}

void HostReducer::begin(const StepNumbers& numbers, std::span<const std::size_t> inputs,
                        std::span<const std::size_t> outputs) {
    adds_.assign(inputs.begin(), inputs.end());
    hands_to_.assign(outputs.begin(), outputs.end());
    if (!blocks_.empty())
        for (const Updater& updater : updaters_) updater.session.write(numbers);
    replaced_ = false;
    buckets_.restart();
    exchanged_.restart();
    team_->begin();
}

void HostReducer::give(std::size_t buckets) {
    buckets_.give(buckets);
    if (buckets > 0) team_->release(ready_[buckets - 1]);
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
    buckets_.count_done(block.bucket);
} catch (...) {
    buckets_.fail(); // the towers wait for it
    throw;
}

void HostReducer::fail() {
    team_->cancel();
    buckets_.fail();
    exchanged_.fail();
}

HostReducer::Sum HostReducer::end_work() {
    team_->end();
    Sum all;
    for (const BlockSum& sum : sums_) {
        all.decay += sum.decay;
        all.nonfinite += sum.nonfinite;
    }
    return all;
}

void HostReducer::replace() {
    replaced_ = true;
    current_ = 1 - current_;
}

StepVerdict HostReducer::end(const StepVote& vote) {
    if (!vote.counts) fail();
    const Sum sum = end_work();
    StepVerdict verdict{{}, vote.counts, vote.requests, {}};
    if (!vote.counts) return verdict;
    verdict.results = sum_up(vote.cross_entropies, sum.decay, sum.nonfinite);
    if (verdict.results.finite) replace();
    return verdict;
}

StepResults sum_up(std::span<const float> cross_entropies, double decay, double nonfinite) {
    float cross_entropy = 0;
    for (const float each : cross_entropies) cross_entropy += each;
    StepResults results{cross_entropy + float(decay), cross_entropy, false};
    results.finite = std::isfinite(results.total_loss) && nonfinite == 0;
    return results;
}

/// Sums the gradients in the order of the inputs, not in the order of their arrival.
void HostReducer::add_up(const Updater& updater, const Block& block) const {
    const std::span<float> sum = updater.gradients(block);
    if (adds_.size() == 1) return copy(given(adds_[0], block), sum);
    add_in_order(
        adds_.size(), [&](std::size_t i) { return given(adds_[i], block); }, sum);
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
    for (const std::size_t i : hands_to_)
        stream(part(state, {0, trained.bytes}), part(outputs_[i], trained), prefetch);
}

/// The memory that a block's update will read, for prefetching.
std::vector<std::span<const float>> HostReducer::inputs_of(const Block& block) const {
    std::vector<std::span<const float>> inputs;
    for (const std::size_t i : adds_) inputs.push_back(given(i, block));
    for (const Piece& piece : block.pieces) inputs.push_back(part(state(), piece.whole));
    return inputs;
}

} // namespace towers
