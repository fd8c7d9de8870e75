#include "engine/train/evaluation.h"

#include <algorithm>
#include <future>

namespace towers {
namespace {

Plan plan_of(const Recipe& recipe, const DataSource& data, unsigned batch, bool streamed,
             const DeviceInfo& device) {
    const Model model = recipe.model.for_evaluation();
    const StateLayout layout = layout_of(recipe);
    NetworkSpec spec = network_spec(recipe, layout,
                                    {.batch = batch,
                                     .stored = data.image_size(),
                                     .slots = streamed ? StagedImages::slots(batch) : data.size(),
                                     .staged = streamed,
                                     .largest_allocation = device.largest_allocation});
    spec.model = &model;
    return plan_evaluation(spec);
}

const DataSource* if_streamed(Device& device, const DataSource& data, Feeding feeding) {
    Device* const alone = &device;
    return streams(feeding, data, {&alone, 1}) ? &data : nullptr;
}

} // namespace

Evaluator::Evaluator(Device& device, const Recipe& recipe, const DataSource& data, unsigned batch,
                     Feeding feeding)
    : Evaluator(Session(device), recipe, data, batch, if_streamed(device, data, feeding)) {
    if (streamed_ == nullptr) session_.load(feed_);
}

Evaluator::Evaluator(const Session& loaded, const Recipe& recipe, const DataSource& data, unsigned batch)
    : Evaluator(loaded, recipe, data, batch, nullptr) {}

Evaluator::Evaluator(const Session& loaded, const Recipe& recipe, const DataSource& data, unsigned batch,
                     const DataSource* streamed)
    : batch_(unsigned(std::min<std::uint64_t>(batch, data.size()))), records_(data.size()),
      streamed_(streamed), feed_(data),
      plan_(plan_of(recipe, data, batch_, streamed != nullptr, loaded.device().info())),
      session_(loaded, [](Arena arena) { return arena == Arena::records; }) {
    session_.hold(plan_.bytes());
    recording_ = session_.record(plan_);
    if (streamed_ != nullptr) images_.emplace(session_, plan_.find(staged_records).bytes);
}

Evaluation Evaluator::run(std::span<const float> variables, bool padded, std::size_t first_batch,
                          std::size_t stride) {
    session_.upload(Arena::state, variables.first(plan_.bytes(Arena::state) / sizeof(float)));
    const auto losses = session_.host<float>(plan_.find("staged_losses"));
    const auto correct = session_.host<std::uint32_t>(plan_.find("staged_correct"));
    const auto begin_of = [=, this](std::uint64_t number) {
        return (first_batch + number * stride) * batch_;
    };
    const ExampleOrder order = [=, this](std::uint64_t first, std::span<Example> examples) {
        std::uint64_t next = begin_of(first / batch_);
        for (Example& example : examples) example = {.record = std::uint32_t(next++ % records_)};
    };
    std::uint64_t batches = 0;
    while (begin_of(batches) < records_) ++batches;
    std::optional<BatchReader> reader;
    Device* const device = &session_.device();
    if (streamed_ != nullptr) {
        images_->forget(); // positions have another meaning in each run
        reader.emplace(
            *streamed_, order,
            ReadAhead{.batch = batch_, .readers = default_readers({&device, 1}), .end = batches * batch_});
    }
    std::vector<Example> examples(batch_);

    Evaluation evaluation;
    for (std::uint64_t number = 0; number < batches; ++number) {
        if (reader) {
            compute(*reader, number * batch_);
        } else {
            order(number * batch_, examples);
            feed_.bring(examples);
            session_.write(examples);
            session_.run(recording_);
        }
        const std::uint64_t counted =
            padded ? batch_ : std::min<std::uint64_t>(batch_, records_ - begin_of(number));
        for (std::uint64_t i = 0; i < counted; ++i) {
            evaluation.correct += correct[i];
            evaluation.loss_sum += double(losses[i]);
        }
        evaluation.examples += counted;
    }
    return evaluation;
}

/// The streamed batch at a position, while the next one's images are copied.
void Evaluator::compute(BatchReader& reader, std::uint64_t first) {
    const Batch batch = reader.at(first);
    session_.write(batch.examples, images_->choose(batch));
    images_->stage(batch);
    const Ticket images = images_->upload();
    const Ticket computed = session_.device().submit(recording_, Queue::compute, {&images, 1});
    if (const Batch next = reader.next(); !next.examples.empty()) {
        images_->stage_ahead(next);
        images_->upload_ahead();
    }
    session_.device().wait(computed);
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
