#include "engine/towers/forward_pass.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace towers {
namespace {

Prediction prediction_of(float loss, std::span<const float> logits, std::uint32_t label) {
    if (!std::isfinite(loss)) return {loss, label, Prediction::no_rank};
    const float score = logits[label];
    const auto rank = std::uint32_t(std::ranges::count_if(logits, [&](float each) { return each > score; }));
    const auto best = std::uint32_t(std::ranges::max_element(logits) - logits.begin());
    return {loss, rank == 0 ? label : best, rank};
}

} // namespace

ForwardPass::ForwardPass(Session session, const Plan& plan, unsigned label_offset)
    : session_(std::move(session)), label_offset_(label_offset),
      variables_(plan.bytes(Arena::state) / sizeof(float)) {
    session_.hold(plan.bytes());
    recording_ = session_.record(plan);
    losses_ = session_.host<float>(plan.find("staged_losses"));
    logits_ = session_.host<float>(plan.find("staged_logits"));
    batch_.resize(losses_.size());
}

void ForwardPass::load(std::span<const float> variables) const {
    session_.upload(Arena::state, variables.first(variables_));
}

void ForwardPass::run(std::span<const Example> examples, std::span<Prediction> predictions) {
    for (std::size_t i = 0; i < batch_.size(); ++i) batch_[i] = examples[i % examples.size()];
    session_.write(batch_);
    session_.run(recording_);
    const std::size_t classes = logits_.size() / batch_.size();
    for (std::size_t i = 0; i < examples.size(); ++i)
        predictions[i] = prediction_of(losses_[i], logits_.subspan(i * classes, classes),
                                       examples[i].label + label_offset_);
}

} // namespace towers
