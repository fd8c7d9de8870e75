// How well a network with sigmoids finds the labels of examples that may have several, or none: the figures
// of scikit-learn for indicators of labels.
#pragma once

#include "engine/data/label_sets.h"
#include "engine/inference/class_figures.h"
#include "engine/model/model.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace towers {

/// 1 / (1 + exp(-logit))
double sigmoid(float logit);

/// Scores of examples, each of which is a label's own matter.
struct SigmoidScores {
    std::span<const float> logits; ///< [examples, classes], finite
    unsigned classes;              ///< of the network
    unsigned label_offset = 0;     ///< label 0 is the network's class of this number
    float scale = 1;               ///< factor of the logits

    float logit(std::size_t example, std::uint32_t label) const {
        return logits[example * classes + label_offset + label] * scale;
    }
};

/// Of a network's first loss head.
SigmoidScores scores_of(std::span<const float> logits, const Model& model);

/// What an example of a label has at least as the label's probability, unless others are chosen.
constexpr double usual_threshold = 0.5;

/// The labels of an example whose probability is at least their threshold, ascending.
std::vector<std::uint32_t> labels_found(const SigmoidScores& scores, std::size_t example,
                                        std::span<const double> thresholds);

/// Computed from the scores in their order, so that whoever made them, the bits are the same.
struct MultilabelReport : ClassAverages {
    /// `thresholds`: of each of the data's classes, which alone count: an example is predicted to have the
    /// label if its probability is at least as high.
    MultilabelReport(const LabelSets& sets, const SigmoidScores& scores, std::vector<double> thresholds);

    std::vector<double> thresholds;
    std::vector<ClassFigures> classes; ///< by label
    std::uint64_t examples;
    std::uint64_t exact = 0; ///< examples that are predicted to have their labels and no others

    double subset_accuracy() const { return double(exact) / double(examples); }
    /// The part of all pairs of an example and a label of which the prediction is wrong.
    double hamming_loss() const;
    /// Examples that neither have the label nor are predicted to.
    std::uint64_t true_negatives(std::uint32_t label) const {
        const ClassFigures& its = classes[label];
        return examples - its.examples - its.predicted + its.correct;
    }
};

/// Of each class the threshold with the best F1, in the middle between the probabilities of two examples, or
/// below those of all; of equally good ones the highest. usual_threshold for a class without examples.
std::vector<double> best_thresholds(const LabelSets& sets, const SigmoidScores& scores, unsigned classes);

} // namespace towers
