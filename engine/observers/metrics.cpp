#include "engine/observers/metrics.h"

#include "engine/run/read_metrics.h"

#include <nlohmann/json.hpp>
#include <system_error>

namespace towers {

namespace {

/// One JSON object without a line end.
std::string metrics_line(const StepReport& report, std::uint64_t records) {
    nlohmann::json line{{"step", report.step},
                        {"epoch", report.examples / records},
                        {"examples", report.examples},
                        {"loss", report.loss},
                        {"cross_entropy", report.cross_entropy},
                        {"learning_rate", report.learning_rate},
                        {"tower_losses", report.tower_losses}, // NaN becomes null
                        {"shares", report.shares},
                        {"micro_batches", report.micro_batches}};
    if (report.loss_scale) line["loss_scale"] = *report.loss_scale;
    return line.dump();
}

std::string metrics_line(const TestReport& report, std::uint64_t records) {
    const Evaluation& test = report.evaluation;
    nlohmann::json line{
        {"step", report.step},          {"epoch", report.examples / records},
        {"examples", report.examples},  {"test_examples", test.examples},
        {"test_correct", test.correct}, {"test_cross_entropy", test.cross_entropy()}}; // NaN becomes null
    for (const Metric& metric : all_metrics())
        if (const auto value = report.metrics.find(metric.name); value != report.metrics.end())
            line[metric.key] = value->second;
    return line.dump();
}

} // namespace

Metrics::Metrics(RunDirectory& run, std::uint64_t records) : run_(run), records_(records) {
    std::error_code error;
    if (!std::filesystem::exists(run.metrics_path(), error)) return;
    if (const std::vector<SharesFrom> recorded = read_shares(run.metrics_path()); !recorded.empty())
        written_ = recorded.back();
}

bool Metrics::observe(const Progress& progress) {
    const StepReport& report = progress.report;
    SharesFrom taken{report.step, report.shares, report.micro_batches};
    if (!progress.log && taken.same_as(written_)) return false;
    written_ = std::move(taken);
    run_.append_metrics(metrics_line(report, records_));
    return true;
}

bool Metrics::tested(const TestReport& report) {
    run_.append_metrics(metrics_line(report, records_));
    return true;
}

} // namespace towers
