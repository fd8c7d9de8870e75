#include "engine/towers/averaging.h"

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

/// The update of a block, whose losses come later.
Plan plan_block(const UpdateSpec& spec, const StateLayout& layout) {
    Plan plan;
    const UpdateSpec of_block{
        .layout = &layout, .optimizer = spec.optimizer, .average_first = spec.average_first};
    const TensorId no_loss = plan.tensor("no loss", Arena::step, slice_alignment, {1});
    plan_update(plan, of_block, {no_loss, 1, 1.0f}, slice_alignment);
    plan.place();
    return plan;
}

/// By the library's copy, which spares a large target the read before its first write.
void copy(std::span<const float> source, std::span<float> target) {
    std::memcpy(target.data(), source.data(), source.size_bytes());
}

void add(std::span<const float> source, std::span<float> target) {
    for (std::size_t i = 0; i < target.size(); ++i) target[i] += source[i];
}

void add_two(std::span<const float> a, std::span<const float> b, std::span<float> target) {
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = a[i] + b[i];
}

/// The place of a block's piece of a section in the whole state.
ArenaRange piece_of(const StateSection& whole, const StateSection& of_block, const ArenaRange& block) {
    return {whole.range.offset + block.offset, of_block.range.bytes};
}

std::unique_ptr<Device> open_host(OpenOptions options, unsigned threads) {
    options.threads = threads;
    return open_device("cpu", options);
}

} // namespace

AveragingStage::AveragingStage(const OpenOptions& host, const UpdateSpec& spec,
                               std::vector<StagedByTower> towers, std::span<const ArenaRange> buckets)
    : layout_(*spec.layout), towers_(std::move(towers)), host_(open_host(host, 1)) {
    const unsigned threads = cpu_threads(host.threads);
    for (Buffer& state : states_) state = host_->allocate(layout_.bytes, Memory::staging);
    if (spec.optimizer->clip_norm) { // one block, for all threads of one device
        blocks_ = {{layout_.all_variables(), 0}};
        kinds_ = {layout_};
        blocks_end_.resize(buckets.size());
        blocks_end_.back() = 1;
        benches_.push_back({open_host(host, threads)});
    } else {
        for (const ArenaRange& bucket : buckets) {
            for (const ArenaRange& range : make_blocks(layout_, bucket, block_bytes)) {
                StateLayout kind = layout_of_block(layout_, range);
                const auto is_alike = [&](const StateLayout& other) {
                    return other.trained_bytes == kind.trained_bytes &&
                           other.variable_bytes == kind.variable_bytes &&
                           are_updated_alike(other.variables[0], kind.variables[0]);
                };
                const auto found = std::ranges::find_if(kinds_, is_alike);
                blocks_.push_back({range, std::size_t(found - kinds_.begin())});
                if (found == kinds_.end()) kinds_.push_back(std::move(kind));
            }
            blocks_end_.push_back(blocks_.size());
        }
        while (benches_.size() < std::min<std::size_t>(threads, blocks_.size()))
            benches_.push_back({open_host(host, 1)});
    }
    sums_.resize(blocks_.size());
    std::vector<Plan> plans;
    for (const StateLayout& kind : kinds_) plans.push_back(plan_block(spec, kind));
    for (Bench& bench : benches_) {
        for (const Plan& plan : plans) bench.session.hold(plan.bytes());
        for (const Plan& plan : plans) bench.updates.push_back(bench.session.record(plan));
    }
    for (std::size_t i = 1; i < benches_.size(); ++i) workers_.push_back(std::make_unique<Worker>());
}

void AveragingStage::load(std::span<const float> state) {
    std::ranges::copy(state, states_[current_].host<float>().begin());
    replaced_ = false;
}

void AveragingStage::hand_over(std::size_t tower) const {
    copy(part(state(), layout_.trained()), towers_[tower].parameters);
}

void AveragingStage::begin(const StepNumbers& numbers, std::span<const std::size_t> towers) {
    active_.assign(towers.begin(), towers.end());
    for (const Bench& bench : benches_) bench.session.write(numbers);
    replaced_ = false;
}

/// What a block's update reads: each tower's gradients, then the pieces of a whole state from before.
AveragingStage::Spans AveragingStage::inputs_of(const Block& block, std::span<const float> from) const {
    const StateLayout& kind = kinds_[block.kind];
    std::vector<std::span<const float>> inputs;
    for (const std::size_t i : active_) inputs.push_back(part(towers_[i].gradients, block.range));
    for (std::size_t i = 0; i < kind.sections.size(); ++i)
        if (kind.sections[i].range.bytes > 0)
            inputs.push_back(part(from, piece_of(layout_.sections[i], kind.sections[i], block.range)));
    return inputs;
}

/// Runs the update of a block on a bench.
void AveragingStage::update(Bench& bench, const Block& block, std::span<const float> from) {
    const StateLayout& kind = kinds_[block.kind];
    const auto inputs = inputs_of(block, from);
    const std::size_t towers = active_.size();
    const std::span<float> sum = bench.host(Arena::gradients).first(block.range.bytes / sizeof(float));
    if (towers == 1)
        copy(inputs[0], sum);
    else
        add_two(inputs[0], inputs[1], sum);
    for (std::size_t i = 2; i < towers; ++i) add(inputs[i], sum);
    for (std::size_t i = 0, next = towers; i < kind.sections.size(); ++i)
        if (kind.sections[i].range.bytes > 0)
            copy(inputs[next++], part(bench.host(Arena::state), kind.sections[i].range));
    bench.session.run(bench.updates[block.kind]);
}

/// Takes a block's new state to the second set, and its parameters to the towers.
void AveragingStage::publish(const Bench& bench, const Block& block, Prefetch& prefetch) {
    const StateLayout& kind = kinds_[block.kind];
    const std::span<const float> state = bench.host(Arena::state);
    for (std::size_t i = 0; i < kind.sections.size(); ++i)
        if (kind.sections[i].range.bytes > 0)
            stream(part(state, kind.sections[i].range),
                   part(states_[1 - current_].host<float>(),
                        piece_of(layout_.sections[i], kind.sections[i], block.range)),
                   prefetch);
    if (kind.trained_bytes == 0) return;
    for (const std::size_t i : active_)
        stream(part(state, kind.trained()),
               part(towers_[i].parameters, {block.range.offset, kind.trained_bytes}), prefetch);
}

/// Blocks [first, last), each by the next thread that is free. `next`: the one that the thread does after it,
/// perhaps `last`.
void AveragingStage::for_each_block(
    std::size_t first, std::size_t last,
    const std::function<void(Bench&, std::size_t block, std::size_t next)>& work) {
    std::atomic<std::size_t> free = first;
    const auto take = [&] { return std::min(free++, last); };
    const auto work_on = [&](Bench& bench) {
        for (std::size_t block = take(); block < last;) {
            const std::size_t next = take();
            work(bench, block, next);
            block = next;
        }
    };
    std::vector<std::future<void>> others;
    std::exception_ptr failed;
    try {
        for (std::size_t i = 0; i < std::min(workers_.size(), last - first - 1); ++i)
            others.push_back(workers_[i]->run([&, i] { work_on(benches_[i + 1]); }));
        work_on(benches_[0]);
    } catch (...) {
        failed = std::current_exception();
    }
    for (std::future<void>& other : others) other.wait(); // before an exception leaves: they use what is here
    if (failed) std::rethrow_exception(failed);
    for (std::future<void>& other : others) other.get();
}

std::size_t AveragingStage::average(std::size_t bucket) {
    const std::size_t first = bucket == 0 ? 0 : blocks_end_[bucket - 1];
    const std::size_t last = blocks_end_[bucket];
    if (first < last)
        for_each_block(first, last, [&](Bench& bench, std::size_t i, std::size_t next) {
            update(bench, blocks_[i], state());
            const std::span<const float> results = bench.host(Arena::staged_results);
            sums_[i] = {results[RESULT_TOTAL_LOSS], results[RESULT_NONFINITE]};
            Prefetch prefetch(next < last ? inputs_of(blocks_[next], state()) : Spans());
            publish(bench, blocks_[i], prefetch);
        });
    return last == blocks_.size() ? blocks_end_.size() : last == 0 ? 0 : bucket + 1;
}

StepResults AveragingStage::end(std::span<const float> cross_entropies) {
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

void AveragingStage::save_gradients(std::span<float> gradients) {
    const std::span<const float> before = states_[replaced_ ? 1 - current_ : current_].host<float>();
    for_each_block(0, blocks_.size(), [&](Bench& bench, std::size_t i, std::size_t) {
        update(bench, blocks_[i], before);
        copy(bench.host(Arena::gradients).first(blocks_[i].range.bytes / sizeof(float)),
             part(gradients, blocks_[i].range));
    });
}

} // namespace towers
