// Evaluates parameters on a data set.
#pragma once

#include "engine/execution/feeding.h"
#include "engine/execution/forward_pass.h"
#include "engine/inference/dealing.h"
#include "engine/recipes/recipe.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace towers {

constexpr unsigned few_classes = 5; ///< among which an example's label counts too, unless others are asked

struct Evaluation {
    std::uint64_t examples = 0, correct = 0, correct_in_few = 0;
    unsigned few = few_classes; ///< classes with the highest scores
    double loss_sum = 0;        ///< sum of the examples' cross entropies

    double accuracy() const { return double(correct) / double(examples); } ///< the tutorial's precision @ 1
    double accuracy_in_few() const { return double(correct_in_few) / double(examples); } ///< precision @ few
    double cross_entropy() const { return loss_sum / double(examples); }
};

/// Sums up so many predictions, of the first records again after the last one's, in this order: whoever made
/// them, the bits are the same.
Evaluation sum_up(std::span<const Prediction> predictions, std::uint64_t count, unsigned few = few_classes);
inline Evaluation sum_up(std::span<const Prediction> predictions) {
    return sum_up(predictions, predictions.size());
}

/// Plans a forward pass of the recipe's network over `batch` examples on a device that has `slots` records of
/// this size; without slots, each batch brings its images (StagedImages).
Plan evaluation_plan(const Recipe& recipe, const ImageSize& stored, std::optional<std::size_t> slots,
                     unsigned batch, const DeviceInfo& device);

/// A pass over images of this size that come with each batch.
ForwardPass streaming_pass(Device& device, const Recipe& recipe, const ImageSize& stored, unsigned batch);

/// Evaluates on one device, which must outlive it.
class Evaluator {
public:
    /// Has the device load the data, or streams it, as streams() says for this device alone; the data must
    /// then outlive the evaluator. `batch`: examples at once, if there are as many.
    Evaluator(Device& device, const Recipe& recipe, const DataSource& data, unsigned batch,
              Feeding feeding = Feeding::automatic);

    unsigned batch() const { return pass_.batch(); }
    std::uint64_t records() const { return records_; }

    /// Fills the predictions, by record, of the batches that are dealt so. `variables`: including statistics,
    /// laid out as StateLayout says. InputError when streamed data cannot be read.
    void run(std::span<const float> variables, const Dealing& dealing, const PredictionSpan& predictions);

private:
    std::uint64_t records_;
    const DataSource* streamed_; ///< null: the device holds the data
    ResidentFeed feed_;
    ForwardPass pass_;
};

/// The predictions of the whole data set, by record: the evaluators share its batches and work at the same
/// time, each on a device of its own. Where other processes have further evaluators, only those of the
/// batches that `dealing` says are there. `classes`: of the scores that are kept; 0: none are.
Predictions evaluate(std::span<Evaluator> evaluators, std::span<const float> variables, unsigned classes = 0);
Predictions evaluate(std::span<Evaluator> evaluators, std::span<const float> variables,
                     const Dealing& dealing, unsigned classes = 0);

} // namespace towers
