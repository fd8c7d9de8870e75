#include "engine/train/metrics.h"

#include "engine/train/json_lines.h"

#include <nlohmann/json.hpp>
#include <system_error>

namespace towers {

namespace {

constexpr const char* file_name = "metrics.jsonl";

/// One JSON object without a line end.
std::string metrics_line(const StepReport& report, std::uint64_t records) {
    nlohmann::json line{{"step", report.step},
                        {"epoch", report.examples / records},
                        {"examples", report.examples},
                        {"loss", report.loss},
                        {"cross_entropy", report.cross_entropy},
                        {"learning_rate", report.learning_rate},
                        {"tower_losses", report.tower_losses}}; // NaN becomes null
    if (report.shares.size() > 1) line["shares"] = report.shares;
    return line.dump();
}

std::string metrics_line(const TestReport& report, std::uint64_t records) {
    const Evaluation& test = report.evaluation;
    nlohmann::json line{{"step", report.step},
                        {"epoch", report.examples / records},
                        {"examples", report.examples},
                        {"test_examples", test.examples},
                        {"test_correct", test.correct},
                        {"test_precision", test.precision()},
                        {"test_cross_entropy", test.cross_entropy()}};
    if (report.classes > few_classes) line["test_precision_5"] = test.precision_in_few();
    return line.dump();
}

} // namespace

Metrics::Metrics(RunDirectory& run, std::uint64_t records, bool several_towers)
    : run_(run), records_(records) {
    std::error_code error;
    if (!several_towers || !std::filesystem::exists(run.metrics_path(), error)) return;
    if (const std::vector<SharesFrom> recorded = read_shares(run.metrics_path()); !recorded.empty())
        shares_ = recorded.back().shares;
}

bool Metrics::observe(const Progress& progress) {
    const StepReport& report = progress.report;
    if (!progress.log && (report.shares.size() < 2 || report.shares == shares_)) return false;
    shares_ = report.shares;
    run_.append_metrics(metrics_line(report, records_));
    return true;
}

bool Metrics::tested(const TestReport& report) {
    run_.append_metrics(metrics_line(report, records_));
    return true;
}

std::vector<SharesFrom> read_shares(const std::filesystem::path& metrics) {
    std::vector<SharesFrom> found;
    for_each_json_line(metrics, file_name, [&](const nlohmann::json& line, const auto& complain) {
        if (!line.contains("shares")) return;
        const auto step = line.find("step"), shares = line.find("shares");
        if (step == line.end() || !step->is_number_unsigned() || !shares->is_array()) complain();
        SharesFrom at{step->get<std::uint64_t>(), {}};
        for (const nlohmann::json& share : *shares) {
            if (!share.is_number_unsigned() || share.get<std::uint64_t>() > largest_global_batch) complain();
            at.shares.push_back(share.get<unsigned>());
        }
        if (found.empty() || found.back().shares != at.shares) found.push_back(std::move(at));
    });
    return found;
}

std::vector<TestedStep> read_tests(const std::filesystem::path& metrics) {
    std::vector<TestedStep> found;
    for_each_json_line(metrics, file_name, [&](const nlohmann::json& line, const auto& complain) {
        const auto step = line.find("step"), precision = line.find("test_precision");
        if (precision == line.end()) return;
        if (step == line.end() || !step->is_number_unsigned() || !precision->is_number()) complain();
        const auto number = [&](const char* key) -> std::optional<double> {
            const auto value = line.find(key);
            if (value == line.end() || !value->is_number()) return {};
            return value->template get<double>();
        };
        found.push_back({step->template get<std::uint64_t>(), precision->template get<double>(),
                         number("test_precision_5"), number("test_cross_entropy")});
    });
    return found;
}

} // namespace towers
