#include "engine/execution/forward_pass.h"

#include "engine/execution/feeding.h"
#include "engine/step/network.h"

#include <algorithm>
#include <utility>

namespace towers {

ForwardPass::ForwardPass(Session session, const Plan& plan, EvaluatedHead head)
    : session_(std::move(session)), head_(std::move(head)),
      variables_(plan.bytes(Arena::state) / sizeof(float)) {
    session_.hold(session_.needs(plan));
    recording_ = session_.record(plan);
    if (head_.head.kind == LossKind::softmax) losses_ = session_.host<float>(plan.find("staged_losses"));
    const PlannedTensor& logits = plan.find("staged_logits");
    logits_ = session_.host<float>(logits);
    batch_.resize(logits.shape[0]);
    if (plan.bytes(Arena::staged_records) > 0) images_.emplace(session_, plan.find(staged_records).bytes);
}

void ForwardPass::load(std::span<const float> variables) const {
    session_.upload(Arena::state, variables.first(variables_));
}

bool ForwardPass::run(std::span<const Example> examples, const StreamedData& streamed,
                      const PredictionSpan& predictions, const PassWatch& watch) {
    std::optional<BatchReader> reader;
    if (streamed.source != nullptr) {
        Device* const device = &session_.device();
        reader.emplace(
            *streamed.source,
            [examples](std::uint64_t first, std::span<Example> read) {
                for (Example& each : read) each = examples[first++ % examples.size()];
            },
            ReadAhead{.batch = batch(),
                      .readers = streamed.readers != 0 ? streamed.readers : default_readers({&device, 1}),
                      .end = examples.size()});
        images_->forget();
    }
    const std::size_t classes = logits_.size() / batch_.size();
    for (std::size_t first = 0; first < examples.size(); first += batch_.size()) {
        if (watch.stop()) return false;
        const std::size_t count = std::min(batch_.size(), examples.size() - first);
        if (reader) {
            watch.reads(true);
            const Batch batch = reader->at(first);
            watch.reads(false);
            compute(batch, reader->next());
        } else
            compute({first, examples.subspan(first, count), {}}, {});
        for (std::size_t i = 0; i < count; ++i) {
            const Example& example = examples[first + i];
            const auto logits = logits_.subspan(i * classes, classes);
            const float loss =
                losses_.empty() ? head_.loss(logits, example.record, example.label) : losses_[i];
            predictions.each[first + i] = head_.prediction(loss, logits, example.label);
        }
        if (!predictions.scores.empty())
            std::copy_n(logits_.begin(), count * classes, predictions.part(first, count).scores.begin());
    }
    return true;
}

void ForwardPass::run(BatchQueue& queue, const SeeScores& see) {
    images_->forget();
    using Waiting = BatchQueue::Waiting;
    std::uint64_t first = 0;
    Ticket computing = 0;
    std::vector<Example> examples; // of the batch that has been staged ahead
    Batch ahead;
    // Whoever holds a batch keeps the other devices from the queue, so it only copies the images.
    const auto begin = [&](const Batch& batch) {
        first = batch.first;
        computing = submit(batch);
    };
    while (!ahead.examples.empty() || queue.take(Waiting::until_read, begin)) {
        if (!ahead.examples.empty()) begin(std::exchange(ahead, {}));
        queue.take(Waiting::not_at_all, [&](const Batch& next) {
            images_->prefetch(next);
            examples.assign(next.examples.begin(), next.examples.end());
            ahead = {next.first, examples, next.images}; // which will be gone, but they are staged
        });
        images_->upload_prefetched();
        session_.device().wait(computing);
        see(first, logits_);
    }
}

/// Computes a batch whose images, unless they are there, come to the device before.
Ticket ForwardPass::submit(const Batch& batch) {
    const std::vector<Example> placed = images_->choose(batch);
    for (std::size_t i = 0; i < batch_.size(); ++i) batch_[i] = placed[i % placed.size()];
    session_.write(batch_);
    images_->stage(batch);
    const Ticket images = images_->upload();
    return session_.device().submit(recording_, Queue::compute, {&images, 1});
}

/// Meanwhile the images of the next batch, if they are there, are copied to the device.
void ForwardPass::compute(const Batch& batch, const Batch& next) {
    if (!images_) {
        for (std::size_t i = 0; i < batch_.size(); ++i) batch_[i] = batch.examples[i % batch.examples.size()];
        session_.write(batch_);
        session_.run(recording_);
        return;
    }
    const Ticket computed = submit(batch);
    if (!next.examples.empty()) {
        images_->prefetch(next);
        images_->upload_prefetched();
    }
    session_.device().wait(computed);
}

} // namespace towers
