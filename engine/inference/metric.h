// The metrics of a network by name: those of evaluations, test passes and reports.
#pragma once

#include "engine/inference/classification_report.h"
#include "engine/inference/evaluation.h"
#include "engine/inference/multilabel_report.h"

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace towers {

/// What a metric is computed from.
struct MetricSource {
    const Evaluation& evaluation; ///< of few_classes
    /// Null if a loss is not finite, or examples may have several labels.
    const ClassificationReport* report;
    unsigned classes; ///< of the network
    bool has_label_sets = false;
    const MultilabelReport* multilabel = nullptr; ///< null if it has none, or a score is not finite
};

struct Metric {
    std::string name;     ///< in flags and in the JSON of eval: `f1_macro`
    std::string text;     ///< for people: `macro F1`
    std::string key = {}; ///< in metrics.jsonl
    std::string tag = {}; ///< in TensorBoard
    /// How many labels an example has where the metric is defined.
    enum class Labels { any, one, several } labels = Labels::any;
    bool lower_is_better = false;
    bool needs_scores = false;
    std::function<std::optional<double>(const MetricSource&)> value; ///< none if it is not defined

    bool fits(bool has_label_sets) const {
        return labels == Labels::any || (labels == Labels::several) == has_label_sets;
    }
    /// Whether it is better than the other.
    bool is_better(double one, double than) const { return lower_is_better ? one < than : one > than; }
};

std::span<const Metric> all_metrics();

/// By which test passes are judged if nothing else is chosen.
const Metric& usual_metric(bool has_label_sets);

/// Throws UsageError, which begins with `flag`, for an unknown name.
const Metric& find_metric(std::string_view name, std::string_view flag);

/// By name, those that are defined.
using MetricValues = std::map<std::string, double>;

MetricValues values_of_metrics(const MetricSource& source);

} // namespace towers
