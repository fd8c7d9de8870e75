#include "engine/towers/averaging.h"

#include <numeric>
#include <utility>

namespace towers {
namespace {

std::uint64_t host_address(std::span<const float> floats) {
    return reinterpret_cast<std::uint64_t>(floats.data());
}

template<class Pointer>
Pointer at(std::uint64_t address) {
    return {reinterpret_cast<decltype(Pointer::at)>(address)};
}

} // namespace

AveragingStage::AveragingStage(std::unique_ptr<Device> device, const ParameterLayout& layout,
                               const std::vector<std::span<float>>& staged, const std::vector<float>& weights,
                               std::span<const ArenaRange> buckets, bool average_first)
    : device_(std::move(device)), parameters_(device_->allocate(layout.bytes, Memory::staging)),
      averages_(device_->allocate(layout.bytes, Memory::staging)),
      gradients_(device_->allocate(layout.bytes, Memory::staging)),
      step_(device_->allocate(STEP_FLOATS * sizeof(float), Memory::staging)),
      results_(device_->allocate(RESULT_FLOATS * sizeof(float), Memory::staging)) {
    for (const ArenaRange& bucket : buckets) {
        std::vector<Command> commands;
        // More towers than a launch takes: the later launches add to the mean so far.
        for (std::size_t first = 0; first < staged.size();) {
            AverageGradientsParams p{};
            const std::uint64_t mean = gradients_.address() + bucket.offset;
            if (first > 0) {
                p.gradients[0] = at<In_f32x4>(mean);
                p.weight[0] = 1.0f;
                p.towers = 1;
                commands.push_back(Barrier{});
            }
            for (; p.towers < AVERAGE_TOWERS && first < staged.size(); ++p.towers, ++first) {
                p.gradients[p.towers] = at<In_f32x4>(host_address(staged[first]) + bucket.offset);
                p.weight[p.towers] = weights[first];
            }
            p.mean = at<Out_f32x4>(mean);
            p.quads = unsigned(bucket.bytes / 16);
            commands.push_back(launch(kernels::average_gradients, p, p.quads));
        }
        average_.push_back(device_->record(commands));
    }
    const unsigned chunks = REDUCTION_CHUNKS(layout.quads());
    counts_ = device_->allocate(chunks * sizeof(uint), Memory::staging);
    const Command check[] = {launch(kernels::count_nonfinite,
                                    {.x = at<In_f32x4>(gradients_.address()),
                                     .counts = at<Out_u32>(counts_.address()),
                                     .quads = layout.quads()},
                                    chunks)};
    check_ = device_->record(check);
    Command update[] = {launch(kernels::sgd,
                               {.gradients = at<In_f32x4>(gradients_.address()),
                                .parameters = at<InOut_f32x4>(parameters_.address()),
                                .step = at<In_f32>(step_.address()),
                                .results = at<In_f32>(results_.address()),
                                .quads = layout.quads()},
                               layout.quads()),
                        Barrier{},
                        launch(kernels::moving_average,
                               {.values = at<In_f32x4>(parameters_.address()),
                                .averages = at<InOut_f32x4>(averages_.address()),
                                .step = at<In_f32>(step_.address()),
                                .results = at<In_f32>(results_.address()),
                                .quads = layout.quads(),
                                .blend = -1.0f}, // the step's
                               layout.quads())};
    if (average_first) std::swap(update[0], update[2]);
    update_ = device_->record(update);
}

void AveragingStage::run(const Recording& recording) { device_->wait(device_->submit(recording)); }

void AveragingStage::average(std::size_t bucket) { run(average_[bucket]); }

unsigned AveragingStage::nonfinite() {
    run(check_);
    const std::span<const uint> counts = counts_.host<uint>();
    return std::accumulate(counts.begin(), counts.end(), 0u);
}

void AveragingStage::update(const StepNumbers& numbers) {
    const std::span<float> block = step_.host<float>();
    block[STEP_LEARNING_RATE] = numbers.learning_rate;
    block[STEP_AVERAGE_DECAY] = numbers.average_decay;
    run(update_);
}

} // namespace towers
