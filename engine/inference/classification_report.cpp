#include "engine/inference/classification_report.h"

#include "engine/execution/softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace towers {
namespace {

/// Of each class against the rest.
std::vector<Ranking> rank_all(std::span<const std::uint32_t> labels, std::span<const float> scores,
                              unsigned classes, const LossHead& head) {
    std::vector<float> scaled(scores.begin(), scores.end());
    for (float& each : scaled) each *= head.logit_scale;
    std::vector<Softmax> softmax; // a sigmoid keeps the order of the scores
    for (std::size_t i = 0; i < labels.size() && head.kind == LossKind::softmax; ++i)
        softmax.emplace_back(std::span(scaled).subspan(i * classes, classes));
    std::vector<Ranking> rankings;
    for_each_class(
        labels.size(), classes,
        [&](std::size_t example, std::uint32_t label) {
            const float score = scaled[example * classes + label];
            return softmax.empty() ? double(score) : softmax[example].probability(score);
        },
        [&](std::size_t example) { return labels.subspan(example, 1); },
        [&](std::uint32_t, std::span<RankedExample> its) { rankings.push_back(rank(its)); });
    return rankings;
}

double calibration_error_of(std::span<const std::uint32_t> labels, std::span<const Prediction> predictions) {
    struct Bin {
        std::uint64_t correct = 0;
        double confidence = 0;
    };
    std::array<Bin, calibration_bins> bins;
    for (std::size_t i = 0; i < predictions.size(); ++i) {
        const float confidence = predictions[i].confidence;
        unsigned bin = 0; // an upper edge belongs to its bin
        while (bin + 1 < calibration_bins && confidence > float(double(bin + 1) / calibration_bins)) ++bin;
        bins[bin].correct += predictions[i].predicted == labels[i];
        bins[bin].confidence += double(confidence);
    }
    double sum = 0;
    for (const Bin& bin : bins) sum += std::abs(double(bin.correct) - bin.confidence);
    return sum / double(predictions.size());
}

} // namespace

ClassificationReport::ClassificationReport(std::span<const std::uint32_t> labels,
                                           const Predictions& predictions, unsigned classes,
                                           const LossHead& head)
    : confusion(labels, predictions.each, classes),
      calibration_error(calibration_error_of(labels, predictions.each)) {
    const auto average_of = [this](const auto& figure) {
        return average(confusion.figures(), [&](std::uint32_t label) -> std::optional<double> {
            const ClassFigures& its = confusion.of(label);
            if (its.examples == 0 && its.predicted == 0) return {};
            return figure(its).value_or(0);
        });
    };
    precision = average_of([](const ClassFigures& its) { return its.precision(); });
    recall = average_of([](const ClassFigures& its) { return its.recall(); });
    f1 = average_of([](const ClassFigures& its) { return its.f1(); });
    balanced_accuracy = average(confusion.figures(), [this](std::uint32_t label) {
                            return confusion.of(label).recall();
                        }).macro;
    if (predictions.scores.empty()) return;
    rankings = rank_all(labels, predictions.scores, classes, head);
    average_rankings(confusion.figures());
}

} // namespace towers
