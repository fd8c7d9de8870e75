#include "engine/inference/classification_report.h"

#include "engine/execution/softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace towers {
namespace {

/// Over the classes of which `figure(label)` returns a figure.
template<class Figure>
Averages average(const Confusion& confusion, const Figure& figure) {
    double sum = 0, weighted = 0;
    std::uint64_t count = 0, examples = 0;
    for (std::uint32_t label = 0; label < confusion.classes(); ++label) {
        const std::optional<double> its = figure(label);
        if (!its) continue;
        ++count;
        examples += confusion.of(label).examples;
        sum += *its;
        weighted += *its * double(confusion.of(label).examples);
    }
    Averages averages;
    if (count > 0) averages.macro = sum / double(count);
    if (examples > 0) averages.weighted = weighted / double(examples);
    return averages;
}

/// An example's probability of a class, and whether it is one of its examples.
struct Ranked {
    double probability;
    bool is_its;
};

/// Sorts the examples.
Ranking rank(std::span<Ranked> examples) {
    const auto its = std::uint64_t(std::ranges::count(examples, true, &Ranked::is_its));
    const std::uint64_t others = examples.size() - its;
    if (its == 0 || others == 0) return {};
    std::ranges::sort(examples, std::ranges::greater(), &Ranked::probability);
    std::uint64_t its_before = 0, others_before = 0; // of higher probability
    std::uint64_t halves = 0;                        // pairs in the right order count two, equal ones one
    double precisions = 0;
    for (auto at = examples.begin(); at != examples.end();) {
        std::uint64_t its_here = 0, others_here = 0; // equal ones, between which no threshold is
        const double probability = at->probability;
        for (; at != examples.end() && at->probability == probability; ++at)
            ++(at->is_its ? its_here : others_here);
        halves += others_here * (2 * its_before + its_here);
        its_before += its_here;
        others_before += others_here;
        precisions += double(its_here) * (double(its_before) / double(its_before + others_before));
    }
    return {double(halves) / (2 * double(its) * double(others)), precisions / double(its)};
}

/// Of each class against the rest.
std::vector<Ranking> rank_all(std::span<const std::uint32_t> labels, std::span<const float> scores,
                              unsigned classes) {
    constexpr unsigned at_once = 16; // classes: neighbours in memory
    const std::size_t examples = labels.size();
    std::vector<Ranking> rankings;
    std::vector<Ranked> ranked(at_once * examples);
    std::vector<Softmax> softmax;
    for (std::size_t i = 0; i < examples; ++i) softmax.emplace_back(scores.subspan(i * classes, classes));
    for (unsigned first = 0; first < classes; first += at_once) {
        const unsigned count = std::min(at_once, classes - first);
        for (std::size_t i = 0; i < examples; ++i)
            for (unsigned c = 0; c < count; ++c)
                ranked[c * examples + i] = {softmax[i].probability(scores[i * classes + first + c]),
                                            labels[i] == first + c};
        for (unsigned c = 0; c < count; ++c)
            rankings.push_back(rank(std::span(ranked).subspan(c * examples, examples)));
    }
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
                                           const Predictions& predictions, unsigned classes)
    : confusion(labels, predictions.each, classes),
      calibration_error(calibration_error_of(labels, predictions.each)) {
    const auto average_of = [this](const auto& figure) {
        return average(confusion, [&](std::uint32_t label) -> std::optional<double> {
            const ClassFigures& its = confusion.of(label);
            if (its.examples == 0 && its.predicted == 0) return {};
            return figure(its).value_or(0);
        });
    };
    precision = average_of([](const ClassFigures& its) { return its.precision(); });
    recall = average_of([](const ClassFigures& its) { return its.recall(); });
    f1 = average_of([](const ClassFigures& its) { return its.f1(); });
    balanced_accuracy =
        average(confusion, [this](std::uint32_t label) { return confusion.of(label).recall(); }).macro;
    if (predictions.scores.empty()) return;
    rankings = rank_all(labels, predictions.scores, classes);
    auc = average(confusion, [this](std::uint32_t label) { return rankings[label].auc; });
    average_precision =
        average(confusion, [this](std::uint32_t label) { return rankings[label].average_precision; });
}

} // namespace towers
