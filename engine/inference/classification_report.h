// How well a network tells classes apart: the figures of scikit-learn's classification report, AUC, average
// precision and calibration.
#pragma once

#include "engine/inference/confusion.h"

#include <optional>
#include <span>
#include <vector>

namespace towers {

constexpr unsigned calibration_bins = 15;

/// Computed from the predictions in their order, so that whoever made them, the bits are the same. Precision,
/// recall and F1 are averaged over the classes that have examples or are predicted.
struct ClassificationReport : ClassAverages {
    /// `labels`: each prediction's class. The predictions' losses are finite. `head`: makes probabilities of
    /// their scores.
    ClassificationReport(std::span<const std::uint32_t> labels, const Predictions& predictions,
                         unsigned classes, const LossHead& head = {});

    Confusion confusion;
    std::optional<double> balanced_accuracy; ///< mean recall of the classes that have examples
    /// Expected calibration error: the difference of accuracy and mean confidence, in calibration_bins
    /// equally wide bins of the confidence, averaged by their examples.
    double calibration_error;
};

} // namespace towers
