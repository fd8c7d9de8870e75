// From an example's scores to its prediction.
#pragma once

#include "engine/data/label_sets.h"
#include "engine/model/model.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <span>

namespace towers {

/// What a network makes of an example.
struct Prediction {
    float loss; ///< cross entropy; infinite or NaN if a score is
    /// The class with the highest score: the label's if none is higher, else the first of them.
    std::uint32_t predicted;
    std::uint32_t rank; ///< how many classes score higher than the label's; no_rank if the loss is not finite
    float confidence = 0; ///< the probability of the predicted class; 0 if the loss is not finite
    static constexpr std::uint32_t no_rank = std::numeric_limits<std::uint32_t>::max();

    /// Whether the label's class is among the `k` with the highest scores (in_top_k).
    bool is_among(std::uint32_t k) const { return rank < k; }
};

/// `logits`: of all classes. `label`: of the network's classes. `scale`: LossHead::logit_scale.
Prediction prediction_of(float loss, std::span<const float> logits, std::uint32_t label, double scale = 1);

/// The head with which a network is evaluated, and the labels of the data.
struct EvaluatedHead {
    LossHead head;
    unsigned label_offset = 0;                        ///< the network's class of label 0
    std::shared_ptr<const LabelSets> label_sets = {}; ///< see DataSource; null: one label an example

    explicit EvaluatedHead(const Model& model, std::shared_ptr<const LabelSets> sets = nullptr)
        : head(model.heads[0]), label_offset(model.label_offset), label_sets(std::move(sets)) {}

    /// A sigmoid head's loss of an example, as sigmoid_cross_entropy's without weights of classes; else not
    /// to be called. `label`: of the data's, if there are no label sets.
    float loss(std::span<const float> logits, std::uint32_t record, std::uint32_t label) const;
    /// `loss`: a softmax head's, from a device.
    Prediction prediction(float loss, std::span<const float> logits, std::uint32_t label) const;
};

} // namespace towers
