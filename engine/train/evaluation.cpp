#include "engine/train/evaluation.h"

#include <algorithm>
#include <future>

namespace towers {
namespace {

Plan plan_of(const Recipe& recipe, const DataSource& data, unsigned batch, const DeviceInfo& device) {
    const Model model = recipe.model.for_evaluation();
    const StateLayout layout = layout_of(recipe);
    NetworkSpec spec = network_spec(recipe, layout,
                                    {.batch = batch,
                                     .stored = data.image_size(),
                                     .slots = data.size(),
                                     .largest_allocation = device.largest_allocation});
    spec.model = &model;
    return plan_evaluation(spec);
}

} // namespace

Evaluator::Evaluator(const Session& loaded, const Recipe& recipe, const DataSource& data, unsigned batch)
    : batch_(unsigned(std::min<std::uint64_t>(batch, data.size()))), records_(data.size()), feed_(data),
      plan_(plan_of(recipe, data, batch_, loaded.device().info())),
      session_(loaded, [](Arena arena) { return arena == Arena::records; }) {
    session_.hold(plan_.bytes());
    recording_ = session_.record(plan_);
}

Evaluation Evaluator::run(std::span<const float> variables, bool padded, std::size_t first_batch,
                          std::size_t stride) {
    session_.upload(Arena::state, variables.first(plan_.bytes(Arena::state) / sizeof(float)));
    const auto losses = session_.host<float>(plan_.find("staged_losses"));
    const auto correct = session_.host<std::uint32_t>(plan_.find("staged_correct"));
    std::vector<Example> examples(batch_);

    Evaluation evaluation;
    for (std::uint64_t first = first_batch * batch_; first < records_; first += stride * batch_) {
        for (std::uint64_t i = 0; i < batch_; ++i)
            examples[i] = {.record = std::uint32_t((first + i) % records_)};
        feed_.bring(examples);
        session_.write(examples);
        session_.run(recording_);
        const std::uint64_t counted = padded ? batch_ : std::min<std::uint64_t>(batch_, records_ - first);
        for (std::uint64_t i = 0; i < counted; ++i) {
            evaluation.correct += correct[i];
            evaluation.loss_sum += double(losses[i]);
        }
        evaluation.examples += counted;
    }
    return evaluation;
}

Evaluation evaluate(std::span<Evaluator> evaluators, std::span<const float> variables, bool padded) {
    std::vector<std::future<Evaluation>> parts;
    for (std::size_t i = 0; i < evaluators.size(); ++i)
        parts.push_back(std::async(std::launch::async, [&, i] {
            return evaluators[i].run(variables, padded, i, evaluators.size());
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
