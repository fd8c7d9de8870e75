// Runs a network forward over examples on a device, for evaluations.
#pragma once

#include "engine/data/batch_queue.h"
#include "engine/data/batch_reader.h"
#include "engine/execution/evaluated_head.h"
#include "engine/execution/session.h"
#include "engine/execution/staged_images.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace towers {

/// Where a pass writes what the network makes of examples.
struct PredictionSpan {
    std::span<Prediction> each;
    std::span<float> scores = {}; ///< logits, [examples, classes]; empty: nobody asks for them

    /// Of the scores; 0 without them.
    std::size_t classes() const { return each.empty() ? 0 : scores.size() / each.size(); }
    PredictionSpan part(std::size_t first, std::size_t count) const {
        return {each.subspan(first, count), scores.subspan(first * classes(), count * classes())};
    }
};

/// What a network makes of examples.
struct Predictions {
    std::vector<Prediction> each;
    std::vector<float> scores; ///< as PredictionSpan's

    /// `classes`: of the scores; 0: none are kept.
    explicit Predictions(std::size_t examples = 0, std::size_t classes = 0)
        : each(examples), scores(examples * classes) {}

    PredictionSpan all() { return {each, scores}; }
};

/// What a pass asks and tells.
struct PassWatch {
    std::function<bool()> stop = [] { return false; }; ///< before each batch: whether to end early
    std::function<void(bool)> reads = [](bool) {};     ///< true: it waits for data to be read; false: no more
};

/// Images that come with each batch.
struct StreamedData {
    const DataSource* source = nullptr; ///< null: the device holds all images
    unsigned readers = 0;               ///< threads that read; 0: see default_readers()
};

/// Sees a batch's scores, [batch, classes]: that of the records from `first` on.
using SeeScores = std::function<void(std::uint64_t first, std::span<const float> logits)>;

/// One thread at a time uses it.
class ForwardPass {
public:
    /// `plan`: plan_evaluation()'s. `session`: has the records that the examples' slots name, unless the plan
    /// is for staged images. Arenas that it lacks are allocated.
    ForwardPass(Session session, const Plan& plan, EvaluatedHead head);

    unsigned batch() const { return unsigned(batch_.size()); }
    /// `variables`: including statistics, laid out as StateLayout says.
    void load(std::span<const float> variables) const;
    /// Fills each example's prediction and, if there is room for them, scores, batch by batch. `streamed`:
    /// whose images the examples name, if the plan is for staged images. Returns false if it was told to end
    /// early. InputError when streamed data cannot be read.
    bool run(std::span<const Example> examples, const StreamedData& streamed,
             const PredictionSpan& predictions, const PassWatch& watch = {});
    /// Takes batches of the queue, which have this pass's size, until none is left. The plan is for staged
    /// images. Throws what BatchQueue::take() throws.
    void run(BatchQueue& queue, const SeeScores& see);

private:
    Ticket submit(const Batch& batch);
    void compute(const Batch& batch, const Batch& next);

    Session session_;
    EvaluatedHead head_;
    std::size_t variables_; ///< floats of Arena::state
    Recording recording_;
    std::span<const float> losses_, logits_; ///< [batch], of a softmax head; [batch, classes]
    std::vector<Example> batch_;
    std::optional<StagedImages> images_; ///< if the plan is for staged images
};

} // namespace towers
