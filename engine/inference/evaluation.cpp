#include "engine/inference/evaluation.h"

#include "backends/headroom.h"
#include "engine/recipes/recipe_plan.h"

#include <algorithm>
#include <future>
#include <utility>

namespace towers {
namespace {

const DataSource* if_streamed(Device& device, const DataSource& data, Feeding feeding) {
    Device* const alone = &device;
    return streams(feeding, data, {&alone, 1}) ? &data : nullptr;
}

} // namespace

Evaluation sum_up(std::span<const Prediction> predictions, std::uint64_t count, unsigned few) {
    Evaluation sum{.examples = count, .few = few};
    for (std::uint64_t i = 0; i < count; ++i) {
        const Prediction& each = predictions[i % predictions.size()];
        sum.correct += each.is_among(1);
        sum.correct_in_few += each.is_among(few);
        sum.loss_sum += double(each.loss);
    }
    return sum;
}

Plan evaluation_plan(const Recipe& recipe, const ImageSize& stored, std::optional<std::size_t> slots,
                     unsigned batch, const DeviceInfo& device) {
    const Model model = recipe.model.for_evaluation();
    const StateLayout layout = layout_of(recipe);
    NetworkSpec spec = network_spec(recipe, layout,
                                    {.batch = batch,
                                     .stored = stored,
                                     .slots = slots.value_or(StagedImages::slots(batch)),
                                     .staged = !slots,
                                     .largest_allocation = device.largest_allocation});
    spec.model = &model;
    return plan_evaluation(spec);
}

ForwardPass streaming_pass(Device& device, const Recipe& recipe, const ImageSize& stored, unsigned batch) {
    const Plan plan = evaluation_plan(recipe, stored, std::nullopt, batch, device.info());
    return {Session(device), plan, EvaluatedHead(recipe.model)};
}

Evaluator::Evaluator(Device& device, const Recipe& recipe, const DataSource& data, unsigned batch,
                     Feeding feeding)
    : records_(data.size()), streamed_(if_streamed(device, data, feeding)), feed_(data), pass_([&] {
          const auto at_once = unsigned(std::min<std::uint64_t>(batch, records_));
          const auto slots = streamed_ != nullptr ? std::nullopt : std::optional(feed_.slots());
          const Plan plan = evaluation_plan(recipe, data.image_size(), slots, at_once, device.info());
          Session session(device);
          session.hold(plan.bytes());
          if (streamed_ == nullptr) session.load(data);
          return ForwardPass(std::move(session), plan, EvaluatedHead(recipe.model, data.label_sets()));
      }()) {}

void Evaluator::run(std::span<const float> variables, const Dealing& dealing,
                    const PredictionSpan& predictions) {
    std::vector<Example> examples;
    dealing.for_each(records_, batch(), [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t i = begin; i < end; ++i) examples.push_back({.record = std::uint32_t(i)});
    });
    feed_.bring(examples);
    Predictions own(examples.size(), predictions.classes());
    pass_.load(variables);
    pass_.run(examples, {.source = streamed_}, own.all());
    for (std::size_t i = 0; i < own.each.size(); ++i) {
        const PredictionSpan place = predictions.part(examples[i].record, 1);
        place.each[0] = own.each[i];
        std::ranges::copy(own.all().part(i, 1).scores, place.scores.begin());
    }
}

Predictions evaluate(std::span<Evaluator> evaluators, std::span<const float> variables, unsigned classes) {
    return evaluate(evaluators, variables, {0, evaluators.size(), evaluators.size()}, classes);
}

Predictions evaluate(std::span<Evaluator> evaluators, std::span<const float> variables,
                     const Dealing& dealing, unsigned classes) {
    Predictions predictions(evaluators[0].records(), classes);
    std::vector<std::future<void>> parts;
    for (std::size_t i = 0; i < evaluators.size(); ++i)
        parts.push_back(start_task([&, i] {
            evaluators[i].run(variables, {dealing.first + i, 1, dealing.all}, predictions.all());
        }));
    for (std::future<void>& each : parts) each.get();
    return predictions;
}

} // namespace towers
