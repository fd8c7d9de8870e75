#include "engine/train/metrics.h"

#include "engine/train/json_lines.h"

#include <nlohmann/json.hpp>
#include <system_error>

namespace towers {

namespace {

constexpr const char* file_name = "metrics.jsonl";

bool alike(const SharesFrom& a, const SharesFrom& b) {
    return a.shares == b.shares && a.micro_batches == b.micro_batches;
}

/// One JSON object without a line end.
std::string metrics_line(const StepReport& report, std::uint64_t records) {
    const nlohmann::json line{{"step", report.step},
                              {"epoch", report.examples / records},
                              {"examples", report.examples},
                              {"loss", report.loss},
                              {"cross_entropy", report.cross_entropy},
                              {"learning_rate", report.learning_rate},
                              {"tower_losses", report.tower_losses}, // NaN becomes null
                              {"shares", report.shares},
                              {"micro_batches", report.micro_batches}};
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

Metrics::Metrics(RunDirectory& run, std::uint64_t records) : run_(run), records_(records) {
    std::error_code error;
    if (!std::filesystem::exists(run.metrics_path(), error)) return;
    if (const std::vector<SharesFrom> recorded = read_shares(run.metrics_path()); !recorded.empty())
        written_ = recorded.back();
}

bool Metrics::observe(const Progress& progress) {
    const StepReport& report = progress.report;
    SharesFrom taken{report.step, report.shares, report.micro_batches};
    if (!progress.log && alike(taken, written_)) return false;
    written_ = std::move(taken);
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
        const auto step = line.find("step");
        if (step == line.end() || !step->is_number_unsigned()) complain();
        const auto list_of = [&](const char* key) {
            std::vector<unsigned> numbers;
            if (!line.at(key).is_array()) complain();
            for (const nlohmann::json& each : line.at(key)) {
                if (!each.is_number_unsigned() || each.get<std::uint64_t>() > largest_global_batch)
                    complain();
                numbers.push_back(each.get<unsigned>());
            }
            return numbers;
        };
        SharesFrom at{step->get<std::uint64_t>(), list_of("shares")};
        if (line.contains("micro_batches")) at.micro_batches = list_of("micro_batches");
        if (!at.micro_batches.empty() && at.micro_batches.size() != at.shares.size()) complain();
        if (found.empty() || !alike(found.back(), at)) found.push_back(std::move(at));
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
