#include "engine/inference/metric.h"

#include "backends/error.h"
#include "engine/nearest.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

namespace towers {
namespace {

/// `figure`: of the report on examples with one label.
template<class Figure>
auto of_report(const Figure& figure) {
    return [figure](const MetricSource& source) -> std::optional<double> {
        if (source.report == nullptr) return {};
        return figure(*source.report);
    };
}

/// Of the report on examples that may have several labels.
template<class Figure>
auto of_multilabel(const Figure& figure) {
    return [figure](const MetricSource& source) -> std::optional<double> {
        if (source.multilabel == nullptr) return {};
        return figure(*source.multilabel);
    };
}

/// `averages`: a member of either report.
auto averaged(Averages ClassAverages::*averages, std::optional<double> Averages::*kind) {
    return [averages, kind](const MetricSource& source) -> std::optional<double> {
        const ClassAverages* const of =
            source.report != nullptr ? static_cast<const ClassAverages*>(source.report) : source.multilabel;
        if (of == nullptr) return {};
        return of->*averages.*kind;
    };
}
auto macro(Averages ClassAverages::*averages) { return averaged(averages, &Averages::macro); }
auto weighted(Averages ClassAverages::*averages) { return averaged(averages, &Averages::weighted); }
auto micro(Averages ClassAverages::*averages) { return averaged(averages, &Averages::micro); }

std::vector<Metric> make_metrics() {
    using Report = ClassificationReport;
    using Labels = Metric::Labels;
    std::vector<Metric> all{
        // Keys and tags as the tutorial's programs call them
        {.name = "accuracy",
         .text = "accuracy",
         .key = "test_precision",
         .tag = "Precision @ 1",
         .labels = Labels::one,
         .value = [](const MetricSource& source) { return source.evaluation.accuracy(); }},
        {.name = "top_5_accuracy",
         .text = "top-5 accuracy",
         .key = "test_precision_5",
         .tag = "Precision @ 5",
         .labels = Labels::one,
         .value = [](const MetricSource& source) -> std::optional<double> {
             if (source.classes <= few_classes) return {};
             return source.evaluation.accuracy_in_few();
         }},
        {.name = "cross_entropy",
         .text = "cross entropy",
         .lower_is_better = true,
         .value = [](const MetricSource& source) { return source.evaluation.cross_entropy(); }},
        {.name = "balanced_accuracy",
         .text = "balanced accuracy",
         .labels = Labels::one,
         .value = of_report([](const Report& report) { return report.balanced_accuracy; })},
        {.name = "precision_macro", .text = "macro precision", .value = macro(&Report::precision)},
        {.name = "precision_weighted", .text = "weighted precision", .value = weighted(&Report::precision)},
        {.name = "precision_micro",
         .text = "micro precision",
         .labels = Labels::several,
         .value = micro(&Report::precision)},
        {.name = "recall_macro", .text = "macro recall", .value = macro(&Report::recall)},
        {.name = "recall_weighted", .text = "weighted recall", .value = weighted(&Report::recall)},
        {.name = "recall_micro",
         .text = "micro recall",
         .labels = Labels::several,
         .value = micro(&Report::recall)},
        {.name = "f1_macro", .text = "macro F1", .value = macro(&Report::f1)},
        {.name = "f1_weighted", .text = "weighted F1", .value = weighted(&Report::f1)},
        {.name = "f1_micro", .text = "micro F1", .labels = Labels::several, .value = micro(&Report::f1)},
        {.name = "calibration_error",
         .text = "calibration error",
         .labels = Labels::one,
         .lower_is_better = true,
         .value = of_report([](const Report& report) { return report.calibration_error; })},
        {.name = "auc_macro", .text = "macro AUC", .needs_scores = true, .value = macro(&Report::auc)},
        {.name = "auc_weighted",
         .text = "weighted AUC",
         .needs_scores = true,
         .value = weighted(&Report::auc)},
        {.name = "average_precision_macro",
         .text = "mean average precision",
         .needs_scores = true,
         .value = macro(&Report::average_precision)},
        {.name = "average_precision_weighted",
         .text = "weighted average precision",
         .needs_scores = true,
         .value = weighted(&Report::average_precision)},
        {.name = "subset_accuracy",
         .text = "subset accuracy",
         .labels = Labels::several,
         .value = of_multilabel([](const MultilabelReport& report) { return report.subset_accuracy(); })},
        {.name = "hamming_loss",
         .text = "Hamming loss",
         .labels = Labels::several,
         .lower_is_better = true,
         .value = of_multilabel([](const MultilabelReport& report) { return report.hamming_loss(); })},
    };
    for (Metric& each : all) {
        if (each.key.empty()) each.key = "test_" + each.name;
        if (each.tag.empty()) each.tag = "test/" + each.name;
    }
    return all;
}

} // namespace

std::span<const Metric> all_metrics() {
    static const std::vector<Metric> all = make_metrics();
    return all;
}

const Metric& usual_metric(bool has_label_sets) {
    return find_metric(has_label_sets ? "average_precision_macro" : "accuracy", "");
}

const Metric& find_metric(std::string_view name, std::string_view flag) {
    const auto found = std::ranges::find(all_metrics(), name, &Metric::name);
    if (found != all_metrics().end()) return *found;
    std::vector<std::string> names;
    for (const Metric& each : all_metrics()) names.push_back(each.name);
    const bool is_map = name == "mAP" || name == "map" || name == "mean_average_precision";
    const std::string near = is_map ? "average_precision_macro" : nearest(name, names);
    throw UsageError(fmt::format("{} '{}': there is no such metric{}; known are {}", flag, name,
                                 near.empty() ? "" : fmt::format(", but '{}' is one", near),
                                 fmt::join(names, ", ")));
}

MetricValues values_of_metrics(const MetricSource& source) {
    MetricValues values;
    for (const Metric& each : all_metrics())
        if (each.fits(source.has_label_sets))
            if (const auto value = each.value(source); value && std::isfinite(*value))
                values[each.name] = *value;
    return values;
}

} // namespace towers
