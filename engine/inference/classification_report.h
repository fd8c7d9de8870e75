// How well a network tells classes apart: the figures of scikit-learn's classification report, AUC, average
// precision and calibration.
#pragma once

#include "engine/inference/confusion.h"

#include <optional>
#include <span>
#include <vector>

namespace towers {

constexpr unsigned calibration_bins = 15;

/// Over the classes for which there is a figure.
struct Averages {
    std::optional<double> macro;    ///< each class counts alike
    std::optional<double> weighted; ///< by its examples
};

/// How far a class's probability puts its own examples before all others. None without examples of the class
/// or of others.
struct Ranking {
    /// The part of all pairs of an example of the class and another one in which the former has the higher
    /// probability; equal ones count half.
    std::optional<double> auc;
    /// The sum of precision * growth of recall over all thresholds.
    std::optional<double> average_precision;
};

/// Computed from the predictions in their order, so that whoever made them, the bits are the same.
struct ClassificationReport {
    /// `labels`: each prediction's class. The predictions' losses are finite.
    ClassificationReport(std::span<const std::uint32_t> labels, const Predictions& predictions,
                         unsigned classes);

    Confusion confusion;
    std::vector<Ranking> rankings; ///< by class; empty without scores
    /// Over the classes that have examples or are predicted. A precision or recall that a class does not have
    /// counts as 0.
    Averages precision, recall, f1;
    std::optional<double> balanced_accuracy; ///< mean recall of the classes that have examples
    Averages auc, average_precision;         ///< of the rankings
    /// Expected calibration error: the difference of accuracy and mean confidence, in calibration_bins
    /// equally wide bins of the confidence, averaged by their examples.
    double calibration_error;
};

} // namespace towers
