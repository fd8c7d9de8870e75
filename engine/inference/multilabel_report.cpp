#include "engine/inference/multilabel_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace towers {
namespace {

/// Sorts the examples.
double best_threshold(std::span<RankedExample> examples) {
    const auto its = std::uint64_t(std::ranges::count(examples, true, &RankedExample::is_its));
    std::ranges::sort(examples, std::ranges::greater(), &RankedExample::probability);
    double best = usual_threshold, best_f1 = 0;
    ClassFigures figures{.examples = its};
    for (std::size_t at = 0; at < examples.size();) {
        const double probability = examples[at].probability;
        for (; at < examples.size() && examples[at].probability == probability; ++at) {
            ++figures.predicted;
            figures.correct += examples[at].is_its;
        }
        if (*figures.f1() <= best_f1) continue;
        best_f1 = *figures.f1();
        const double next = at < examples.size() ? examples[at].probability : 0;
        const double middle = next + (probability - next) / 2;
        best = middle > next ? middle : probability;
    }
    return best;
}

} // namespace

double sigmoid(float logit) { return 1 / (1 + std::exp(-double(logit))); }

SigmoidScores scores_of(std::span<const float> logits, const Model& model) {
    return {logits, model.classes, model.label_offset, model.heads[0].logit_scale};
}

std::vector<std::uint32_t> labels_found(const SigmoidScores& scores, std::size_t example,
                                        std::span<const double> thresholds) {
    std::vector<std::uint32_t> found;
    for (std::uint32_t label = 0; label < thresholds.size(); ++label)
        if (sigmoid(scores.logit(example, label)) >= thresholds[label]) found.push_back(label);
    return found;
}

MultilabelReport::MultilabelReport(const LabelSets& sets, const SigmoidScores& scores,
                                   std::vector<double> chosen)
    : thresholds(std::move(chosen)), classes(thresholds.size()), examples(sets.size()) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
        const std::span<const std::uint32_t> its = sets.of(i);
        const std::vector<std::uint32_t> found = labels_found(scores, i, thresholds);
        for (const std::uint32_t label : its) {
            ++classes[label].examples;
            classes[label].correct += std::ranges::binary_search(found, label);
        }
        for (const std::uint32_t label : found) ++classes[label].predicted;
        exact += std::ranges::equal(its, found);
    }
    ClassFigures all;
    for (const ClassFigures& each : classes) {
        all.examples += each.examples;
        all.predicted += each.predicted;
        all.correct += each.correct;
    }
    const auto average_of = [&](std::optional<double> (ClassFigures::*figure)() const) {
        Averages averages =
            average(classes, [&](std::uint32_t label) { return (classes[label].*figure)().value_or(0); });
        averages.micro = (all.*figure)().value_or(0);
        return averages;
    };
    precision = average_of(&ClassFigures::precision);
    recall = average_of(&ClassFigures::recall);
    f1 = average_of(&ClassFigures::f1);
    // Logits have the order of their probabilities, of which many may be 0 or 1.
    for_each_class(
        sets.size(), unsigned(classes.size()),
        [&](std::size_t example, std::uint32_t label) { return double(scores.logit(example, label)); },
        [&](std::size_t example) { return sets.of(example); },
        [&](std::uint32_t, std::span<RankedExample> its) { rankings.push_back(rank(its)); });
    average_rankings(classes);
}

double MultilabelReport::hamming_loss() const {
    std::uint64_t wrong = 0;
    for (const ClassFigures& each : classes) wrong += each.examples + each.predicted - 2 * each.correct;
    return double(wrong) / (double(examples) * double(classes.size()));
}

std::vector<double> best_thresholds(const LabelSets& sets, const SigmoidScores& scores, unsigned classes) {
    std::vector<double> best;
    for_each_class(
        sets.size(), classes,
        [&](std::size_t example, std::uint32_t label) { return sigmoid(scores.logit(example, label)); },
        [&](std::size_t example) { return sets.of(example); },
        [&](std::uint32_t, std::span<RankedExample> its) { best.push_back(best_threshold(its)); });
    return best;
}

} // namespace towers
