#include "engine/reduce/host_stage.h"

#include "backends/denormals.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <future>

namespace towers {
namespace {

/// A block's gradients and state stay in a core's cache, and a block is long enough that launches cost
/// little.
constexpr std::size_t block_bytes = std::size_t(64) << 10;

/// Plans the update of a block without losses, which end() adds.
Plan plan_block(const UpdateSpec& spec, const StateLayout& layout) {
    Plan plan;
    const UpdateSpec of_block{
        .layout = &layout, .optimizer = spec.optimizer, .average_first = spec.average_first};
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

HostStage::HostStage(const OpenOptions& host, const UpdateSpec& spec, std::vector<StagedByTower> towers,
                     std::span<const ArenaRange> buckets)
    : layout_(*spec.layout), towers_(std::move(towers)), host_(open_host(host, 1)) {
    const unsigned threads = cpu_threads(host.threads);
    for (Buffer& state : states_) state = host_->allocate(layout_.bytes, Memory::staging);
    if (spec.optimizer->clip_norm) { // one block, with all threads on one device
        add_block(layout_.updated(), layout_);
        blocks_end_.resize(buckets.size());
        blocks_end_.back() = 1;
        updaters_.push_back({open_host(host, threads)});
    } else {
        cut_into_blocks(buckets);
        while (updaters_.size() < std::min<std::size_t>(threads, blocks_.size()))
            updaters_.push_back({open_host(host, 1)});
    }
    sums_.resize(blocks_.size());
    record_updates(spec);
    for (std::size_t i = 1; i < updaters_.size(); ++i) workers_.push_back(std::make_unique<Worker>());
}

void HostStage::cut_into_blocks(std::span<const ArenaRange> buckets) {
    for (const ArenaRange& bucket : buckets) {
        for (const ArenaRange& range : make_blocks(layout_, bucket, block_bytes))
            add_block(range, layout_of_block(layout_, range));
        blocks_end_.push_back(blocks_.size());
    }
}

void HostStage::add_block(const ArenaRange& range, StateLayout kind) {
    const auto found = std::ranges::find_if(kinds_, [&](const StateLayout& other) {
        return other.trained_bytes == kind.trained_bytes && other.variable_bytes == kind.variable_bytes &&
               are_updated_alike(other.variables[0], kind.variables[0]);
    });
    Block block{range, std::size_t(found - kinds_.begin()), {}};
    for (std::size_t i = 0; i < kind.sections.size(); ++i)
        if (const ArenaRange& own = kind.sections[i].range; own.bytes > 0)
            block.pieces.push_back({{layout_.sections[i].range.offset + range.offset, own.bytes}, own});
    blocks_.push_back(std::move(block));
    if (found == kinds_.end()) kinds_.push_back(std::move(kind));
}

void HostStage::record_updates(const UpdateSpec& spec) {
    std::vector<Plan> plans;
    for (const StateLayout& kind : kinds_) plans.push_back(plan_block(spec, kind));
    for (Updater& updater : updaters_) {
        for (const Plan& plan : plans) updater.session.hold(plan.bytes());
        for (const Plan& plan : plans) updater.updates.push_back(updater.session.record(plan));
    }
}

void HostStage::load(std::span<const float> state) {
    copy(state, states_[current_].host<float>());
    if (layout_.frozen().bytes > 0) copy(state, states_[1 - current_].host<float>()); // no step writes them
    replaced_ = false;
}

void HostStage::hand_over(std::size_t tower) const {
    for (const ArenaRange& range : {layout_.trained(), layout_.frozen()})
        if (range.bytes > 0) copy(part(state(), range), part(towers_[tower].parameters, range));
}

void HostStage::begin(const StepNumbers& numbers, std::span<const std::size_t> towers) {
    active_.assign(towers.begin(), towers.end());
    for (const Updater& updater : updaters_) updater.session.write(numbers);
    replaced_ = false;
}

std::size_t HostStage::update(std::size_t bucket) {
    const std::size_t first = bucket == 0 ? 0 : blocks_end_[bucket - 1];
    const std::size_t last = blocks_end_[bucket];
    if (first < last)
        for_each_block(first, last, [&](Updater& updater, std::size_t i, std::size_t next) {
            const Block& block = blocks_[i];
            add_up(updater, block);
            // In future, processes on other machines exchange their sums here.
            update(updater, block, state());
            const std::span<const float> results = updater.host(Arena::staged_results);
            sums_[i] = {results[RESULT_TOTAL_LOSS], results[RESULT_NONFINITE]};
            Prefetch prefetch(next < last ? inputs_of(blocks_[next]) : std::vector<std::span<const float>>());
            hand_over(updater, block, prefetch);
        });
    return last == blocks_.size() ? blocks_end_.size() : last == 0 ? 0 : bucket + 1;
}

StepResults HostStage::end(std::span<const float> cross_entropies) {
    double decay = 0, nonfinite = 0;
    float cross_entropy = 0;
    for (const Sum& sum : sums_) {
        decay += sum.decay;
        nonfinite += sum.nonfinite;
    }
    for (const float each : cross_entropies) cross_entropy += each;
    StepResults results{cross_entropy + float(decay), cross_entropy, false};
    results.finite = std::isfinite(results.total_loss) && nonfinite == 0;
    replaced_ = results.finite;
    if (replaced_) current_ = 1 - current_;
    return results;
}

void HostStage::save_gradients(std::span<float> gradients) {
    const std::span<const float> before = states_[replaced_ ? 1 - current_ : current_].host<float>();
    for_each_block(0, blocks_.size(), [&](Updater& updater, std::size_t i, std::size_t) {
        add_up(updater, blocks_[i]);
        update(updater, blocks_[i], before);
        copy(updater.gradients(blocks_[i]), part(gradients, blocks_[i].range));
    });
}

/// Sums the towers' gradients in the order of the towers, not in the order of their arrival.
void HostStage::add_up(const Updater& updater, const Block& block) const {
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
void HostStage::update(Updater& updater, const Block& block, std::span<const float> from) const {
    for (const Piece& piece : block.pieces)
        copy(part(from, piece.whole), part(updater.host(Arena::state), piece.own));
    updater.session.run(updater.updates[block.kind]);
}

/// Copies a block's new state to the second state, and its parameters to the towers.
void HostStage::hand_over(const Updater& updater, const Block& block, Prefetch& prefetch) {
    const std::span<const float> state = updater.host(Arena::state);
    for (const Piece& piece : block.pieces)
        stream(part(state, piece.own), part(states_[1 - current_].host<float>(), piece.whole), prefetch);
    const ArenaRange trained = kinds_[block.kind].trained();
    if (trained.bytes == 0) return;
    for (const std::size_t i : active_)
        stream(part(state, trained), part(towers_[i].parameters, {block.range.offset, trained.bytes}),
               prefetch);
}

/// The memory that a block's update will read, for prefetching.
std::vector<std::span<const float>> HostStage::inputs_of(const Block& block) const {
    std::vector<std::span<const float>> inputs;
    for (const std::size_t i : active_) inputs.push_back(part(towers_[i].gradients, block.range));
    for (const Piece& piece : block.pieces) inputs.push_back(part(state(), piece.whole));
    return inputs;
}

/// Runs `work` for blocks [first, last), each on the next free thread. `next`: the block that the thread does
/// afterwards, or `last`.
void HostStage::for_each_block(
    std::size_t first, std::size_t last,
    const std::function<void(Updater&, std::size_t block, std::size_t next)>& work) {
    std::atomic<std::size_t> free = first;
    const auto take = [&] { return std::min(free++, last); };
    const auto work_on = [&](Updater& updater) {
        const FlushDenormals flush;
        for (std::size_t block = take(); block < last;) {
            const std::size_t next = take();
            work(updater, block, next);
            block = next;
        }
    };
    std::vector<std::future<void>> others;
    std::exception_ptr failed;
    try {
        for (std::size_t i = 0; i < std::min(workers_.size(), last - first - 1); ++i)
            others.push_back(workers_[i]->run([&, i] { work_on(updaters_[i + 1]); }));
        work_on(updaters_[0]);
    } catch (...) {
        failed = std::current_exception();
    }
    for (std::future<void>& other : others) other.wait(); // before an exception leaves: they use locals
    if (failed) std::rethrow_exception(failed);
    for (std::future<void>& other : others) other.get();
}

} // namespace towers
