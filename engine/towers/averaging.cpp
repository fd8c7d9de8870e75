#include "engine/towers/averaging.h"

#include <algorithm>
#include <numeric>

namespace towers {
namespace {

template<class Pointer>
Pointer at(std::uint64_t address) {
    return {reinterpret_cast<decltype(Pointer::at)>(address)};
}

Plan plan_stage(const UpdateSpec& spec, std::size_t towers) {
    Plan plan;
    const TensorId losses = plan.tensor("towers' cross entropies", Arena::step, slice_alignment, {towers});
    plan_update(plan, spec, {losses, unsigned(towers), 1.0f}, slice_alignment);
    plan.place();
    return plan;
}

} // namespace

AveragingStage::AveragingStage(std::unique_ptr<Device> device, const UpdateSpec& spec,
                               std::vector<std::span<float>> staged, std::span<const ArenaRange> buckets)
    : device_(std::move(device)), staged_(std::move(staged)), buckets_(buckets.begin(), buckets.end()) {
    const Plan plan = plan_stage(spec, staged_.size());
    for (std::size_t i = 0; i < arena_count; ++i)
        if (const std::size_t bytes = plan.bytes(Arena(i)))
            arenas_[i] = device_->allocate(bytes, Memory::staging); // the host reads and writes most of them
    update_ = device_->record(plan.bind(pointers_to(arenas_), 0, plan.levels().size()));
    std::vector<std::size_t> all(staged_.size());
    std::iota(all.begin(), all.end(), std::size_t(0));
    expect(all);
}

void AveragingStage::expect(std::span<const std::size_t> towers) {
    std::vector<Recording> sums;
    for (const ArenaRange& bucket : buckets_) sums.push_back(record_sum(bucket, towers));
    sums_ = std::move(sums);
}

Recording AveragingStage::record_sum(const ArenaRange& bucket, std::span<const std::size_t> towers) {
    std::vector<Command> commands;
    const std::uint64_t sum = buffer(Arena::gradients).address() + bucket.offset;
    // More towers than a launch takes: the later launches add to the sum so far.
    for (std::size_t first = 0; first < towers.size();) {
        SumGradientsParams p{};
        if (first > 0) {
            p.gradients[p.towers++] = at<In_f32x4>(sum);
            commands.push_back(Barrier{});
        }
        for (; p.towers < SUMMED_TOWERS && first < towers.size(); ++p.towers, ++first)
            p.gradients[p.towers] =
                at<In_f32x4>(reinterpret_cast<std::uint64_t>(staged_[towers[first]].data()) + bucket.offset);
        p.sum = at<Out_f32x4>(sum);
        p.quads = quads(bucket);
        commands.push_back(launch(kernels::sum_gradients, p, p.quads));
    }
    return device_->record(commands);
}

void AveragingStage::run(const Recording& recording) { device_->wait(device_->submit(recording)); }

void AveragingStage::average(std::size_t bucket) { run(sums_[bucket]); }

StepResults AveragingStage::update(const StepNumbers& numbers, std::span<const float> cross_entropies) {
    write_numbers(buffer(Arena::step), numbers);
    std::ranges::copy(cross_entropies,
                      buffer(Arena::step).host<float>().subspan(slice_alignment / sizeof(float)).begin());
    run(update_);
    return read_results(buffer(Arena::staged_results));
}

} // namespace towers
