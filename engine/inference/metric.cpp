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

/// `figure`: of the report.
template<class Figure>
auto of_report(const Figure& figure) {
    return [figure](const MetricSource& source) -> std::optional<double> {
        if (source.report == nullptr) return {};
        return figure(*source.report);
    };
}

/// `averages`: a member of the report.
auto macro(Averages ClassificationReport::*averages) {
    return of_report([averages](const ClassificationReport& report) { return (report.*averages).macro; });
}
auto weighted(Averages ClassificationReport::*averages) {
    return of_report([averages](const ClassificationReport& report) { return (report.*averages).weighted; });
}

std::vector<Metric> make_metrics() {
    using Report = ClassificationReport;
    std::vector<Metric> all{
        // Keys and tags as the tutorial's programs call them
        {.name = "accuracy",
         .text = "accuracy",
         .key = "test_precision",
         .tag = "Precision @ 1",
         .value = [](const MetricSource& source) { return source.evaluation.accuracy(); }},
        {.name = "top_5_accuracy",
         .text = "top-5 accuracy",
         .key = "test_precision_5",
         .tag = "Precision @ 5",
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
         .value = of_report([](const Report& report) { return report.balanced_accuracy; })},
        {.name = "precision_macro", .text = "macro precision", .value = macro(&Report::precision)},
        {.name = "precision_weighted", .text = "weighted precision", .value = weighted(&Report::precision)},
        {.name = "recall_macro", .text = "macro recall", .value = macro(&Report::recall)},
        {.name = "recall_weighted", .text = "weighted recall", .value = weighted(&Report::recall)},
        {.name = "f1_macro", .text = "macro F1", .value = macro(&Report::f1)},
        {.name = "f1_weighted", .text = "weighted F1", .value = weighted(&Report::f1)},
        {.name = "calibration_error",
         .text = "calibration error",
         .lower_is_better = true,
         .value = of_report([](const Report& report) { return report.calibration_error; })},
        {.name = "auc_macro", .text = "macro AUC", .needs_scores = true, .value = macro(&Report::auc)},
        {.name = "auc_weighted",
         .text = "weighted AUC",
         .needs_scores = true,
         .value = weighted(&Report::auc)},
        {.name = "average_precision_macro",
         .text = "macro average precision",
         .needs_scores = true,
         .value = macro(&Report::average_precision)},
        {.name = "average_precision_weighted",
         .text = "weighted average precision",
         .needs_scores = true,
         .value = weighted(&Report::average_precision)},
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

const Metric& find_metric(std::string_view name, std::string_view flag) {
    const auto found = std::ranges::find(all_metrics(), name, &Metric::name);
    if (found != all_metrics().end()) return *found;
    std::vector<std::string> names;
    for (const Metric& each : all_metrics()) names.push_back(each.name);
    const std::string near = nearest(name, names);
    throw UsageError(fmt::format("{} '{}': there is no such metric{}; there are {}", flag, name,
                                 near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                                 fmt::join(names, ", ")));
}

MetricValues values_of_metrics(const MetricSource& source) {
    MetricValues values;
    for (const Metric& each : all_metrics())
        if (const auto value = each.value(source); value && std::isfinite(*value)) values[each.name] = *value;
    return values;
}

} // namespace towers
