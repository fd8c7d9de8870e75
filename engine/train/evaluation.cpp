#include "engine/train/evaluation.h"

#include "backends/upload.h"
#include "engine/step/layout.h"

#include <algorithm>
#include <future>

namespace towers {

Evaluator::Evaluator(std::unique_ptr<Device> device, const Recipe& recipe, const DataSource& data,
                     unsigned batch)
    : device_(std::move(device)), batch_(unsigned(std::min<std::uint64_t>(batch, data.size()))),
      records_(data.size()), feed_(data), model_(recipe.model.for_evaluation()),
      layout_(layout_state(recipe.model, *recipe.optimizer, false)),
      plan_(plan_evaluation({.model = &model_,
                             .layout = &layout_,
                             .pipeline = &recipe.pipeline,
                             .batch = batch_,
                             .stored = data.image_size(),
                             .records = feed_.slots(),
                             .largest_allocation = device_->info().largest_allocation})),
      arenas_(allocate_arenas(*device_, plan_, feed_)),
      recording_(device_->record(plan_.bind(pointers_to(arenas_), 0, plan_.levels().size()))) {}

Evaluation Evaluator::run(std::span<const float> variables, bool padded, std::size_t first_batch,
                          std::size_t stride) {
    const Buffer& state = arenas_[std::size_t(Arena::state)];
    upload(*device_, state, std::as_bytes(variables.first(state.bytes() / sizeof(float))));
    const std::span<std::byte> staged = arenas_[std::size_t(Arena::staged_results)].host<std::byte>();
    const auto* losses = reinterpret_cast<const float*>(&staged[plan_.find("staged_losses").offset]);
    const auto* correct =
        reinterpret_cast<const std::uint32_t*>(&staged[plan_.find("staged_correct").offset]);
    const auto staged_examples = arenas_[std::size_t(Arena::step)].host<Example>().subspan(
        step_examples_offset / sizeof(Example), batch_);
    std::vector<Example> examples(batch_);

    Evaluation evaluation;
    for (std::uint64_t first = first_batch * batch_; first < records_; first += stride * batch_) {
        for (std::uint64_t i = 0; i < batch_; ++i)
            examples[i] = {.record = std::uint32_t((first + i) % records_)};
        feed_.bring(examples);
        std::ranges::copy(examples, staged_examples.begin());
        device_->wait(device_->submit(recording_));
        const std::uint64_t counted = padded ? batch_ : std::min<std::uint64_t>(batch_, records_ - first);
        for (std::uint64_t i = 0; i < counted; ++i) {
            evaluation.correct += correct[i];
            evaluation.loss_sum += double(losses[i]);
        }
        evaluation.examples += counted;
    }
    return evaluation;
}

Evaluation evaluate(const std::vector<std::unique_ptr<Evaluator>>& evaluators,
                    std::span<const float> variables, bool padded) {
    std::vector<std::future<Evaluation>> parts;
    for (std::size_t i = 0; i < evaluators.size(); ++i)
        parts.push_back(std::async(std::launch::async, [&, i] {
            return evaluators[i]->run(variables, padded, i, evaluators.size());
        }));
    Evaluation all;
    for (std::future<Evaluation>& each : parts) {
        const Evaluation part = each.get();
        all.examples += part.examples;
        all.correct += part.correct;
        all.loss_sum += part.loss_sum;
    }
    return all;
}

} // namespace towers
