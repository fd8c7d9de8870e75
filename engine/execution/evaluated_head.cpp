#include "engine/execution/evaluated_head.h"

#include "engine/execution/softmax.h"

#include <algorithm>
#include <cmath>

namespace towers {

Prediction prediction_of(float loss, std::span<const float> logits, std::uint32_t label, double scale) {
    if (!std::isfinite(loss)) return {loss, label, Prediction::no_rank};
    const float score = logits[label];
    const auto rank = std::uint32_t(std::ranges::count_if(logits, [&](float each) { return each > score; }));
    const auto best = std::uint32_t(std::ranges::max_element(logits) - logits.begin());
    return {loss, rank == 0 ? label : best, rank, float(Softmax(logits, scale).highest_probability())};
}

float EvaluatedHead::loss(std::span<const float> logits, std::uint32_t record, std::uint32_t label) const {
    const double scale = double(head.logit_scale), smoothing = double(head.smoothing);
    double loss = 0, of_targets = 0;
    for (const float logit : logits) {
        if (!std::isfinite(logit)) return std::numeric_limits<float>::quiet_NaN();
        const double z = scale * double(logit);
        loss += std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
        of_targets += smoothing / double(logits.size()) * z;
    }
    const auto add = [&](std::uint32_t each) {
        of_targets += (1 - smoothing) * scale * double(logits[each + label_offset]);
    };
    if (label_sets)
        std::ranges::for_each(label_sets->of(record), add);
    else
        add(label);
    return float(double(head.weight) * (loss - of_targets) / double(logits.size()));
}

Prediction EvaluatedHead::prediction(float loss, std::span<const float> logits, std::uint32_t label) const {
    Prediction prediction = prediction_of(loss, logits, label + label_offset, double(head.logit_scale));
    if (head.kind == LossKind::sigmoid && prediction.rank != Prediction::no_rank)
        prediction.confidence =
            float(1 / (1 + std::exp(-double(head.logit_scale) * double(logits[prediction.predicted]))));
    return prediction;
}

} // namespace towers
