#include "engine/towers/tower.h"

#include "engine/towers/upload.h"

#include <algorithm>
#include <cmath>

namespace towers {

std::array<Buffer, arena_count> allocate_arenas(Device& device, const Plan& plan, const Dataset& data) {
    std::array<Buffer, arena_count> arenas;
    for (std::size_t i = 0; i < arena_count; ++i)
        if (const std::size_t bytes = plan.bytes(Arena(i)))
            arenas[i] = device.allocate(bytes, is_staging(Arena(i)) ? Memory::staging : Memory::device);
    upload(device, arenas[std::size_t(Arena::records)], std::as_bytes(std::span(data.images)));
    upload(device, arenas[std::size_t(Arena::labels)], std::as_bytes(std::span(data.labels)));
    return arenas;
}

void write_numbers(const Buffer& step, const StepNumbers& numbers) {
    const std::span<float> block = step.host<float>();
    block[STEP_LEARNING_RATE] = numbers.learning_rate;
    block[STEP_AVERAGE_DECAY] = numbers.average_decay;
    block[STEP_CORRECTION_1] = numbers.correction_1;
    block[STEP_CORRECTION_2] = numbers.correction_2;
}

void write_step(const Buffer& step, const StepNumbers& numbers, std::span<const Example> examples) {
    write_numbers(step, numbers);
    static_assert(sizeof(Example) == sizeof(uvec2)); // as the kernel reads them
    const auto target = step.host<Example>().subspan(step_examples_offset / sizeof(Example));
    std::copy(examples.begin(), examples.end(), target.begin());
}

StepResults read_results(const Buffer& staged_results) {
    const std::span<const float> values = staged_results.host<float>();
    return {values[RESULT_TOTAL_LOSS], values[RESULT_CROSS_ENTROPY],
            std::isfinite(values[RESULT_TOTAL_LOSS]) && values[RESULT_NONFINITE] == 0};
}

std::array<const Buffer*, arena_count> pointers_to(const std::array<Buffer, arena_count>& arenas) {
    std::array<const Buffer*, arena_count> pointers{};
    std::transform(arenas.begin(), arenas.end(), pointers.begin(), [](const Buffer& each) { return &each; });
    return pointers;
}

Tower::Tower(std::unique_ptr<Device> device, const Dataset& data, TrainingPlan plan, unsigned share)
    : device_(std::move(device)), share_(share), plan_(std::move(plan)),
      arenas_(allocate_arenas(*device_, plan_.plan, data)) {
    const auto pointers = pointers_to(arenas_);
    std::size_t first = 0;
    for (const Cut& cut : plan_.cuts) {
        parts_.push_back({device_->record(plan_.plan.bind(pointers, first, cut.level)), cut.buckets,
                          exchanges_of(cut.level)});
        first = cut.level;
    }
    tickets_.resize(parts_.size());
}

std::vector<Exchange> Tower::exchanges_of(std::size_t level) const {
    std::vector<Exchange> exchanges;
    if (level == plan_.plan.levels().size()) return exchanges;
    const auto staged = [&](TensorId id) {
        const PlannedTensor& tensor = plan_.plan.tensors()[id.index()];
        return buffer(tensor.arena)
            .host<float>()
            .subspan(tensor.offset / sizeof(float), tensor.bytes / sizeof(float));
    };
    for (const Operation& operation : plan_.plan.levels()[level])
        if (const auto* planned = std::get_if<PlannedExchange>(&operation.work))
            exchanges.push_back({.merge = planned->merge,
                                 .values = planned->values,
                                 .given = {staged(planned->given[0]), staged(planned->given[1])},
                                 .merged = {staged(planned->merged[0]), staged(planned->merged[1])}});
    return exchanges;
}

void Tower::prepare(const StepNumbers& numbers, std::span<const Example> examples) {
    write_step(buffer(Arena::step), numbers, examples);
}

void Tower::submit_from(std::size_t first) {
    for (std::size_t i = first; i < parts_.size(); ++i) {
        tickets_[i] = device_->submit(parts_[i].recording);
        if (!parts_[i].exchanges.empty()) return;
    }
}

void Tower::wait(std::size_t part) { device_->wait(tickets_[part]); }

StepResults Tower::results() const { return read_results(buffer(Arena::staged_results)); }

void Tower::load(std::span<const float> state) {
    upload(*device_, buffer(Arena::state), std::as_bytes(state));
}

void Tower::save(std::span<float> state) {
    download(*device_, buffer(Arena::state), std::as_writable_bytes(state));
}

void Tower::save_gradients(std::span<float> gradients) {
    download(*device_, buffer(Arena::gradients), std::as_writable_bytes(gradients));
}

} // namespace towers
