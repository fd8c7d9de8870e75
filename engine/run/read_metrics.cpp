#include "engine/run/read_metrics.h"

#include "engine/run/json_lines.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace towers {

namespace {

constexpr const char* file_name = "metrics.jsonl";

} // namespace

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
        if (found.empty() || !at.same_as(found.back())) found.push_back(std::move(at));
    });
    return found;
}

// Early versions had no number of examples; where these may have several labels, there is no precision.
bool is_test_pass(const nlohmann::json& line) {
    return line.contains("test_examples") || line.contains("test_precision");
}

MetricValues metrics_in(const nlohmann::json& line) {
    MetricValues metrics;
    for (const Metric& metric : all_metrics())
        if (const auto value = line.find(metric.key); value != line.end() && value->is_number())
            metrics[metric.name] = value->get<double>();
    return metrics;
}

std::vector<TestedStep> read_tests(const std::filesystem::path& metrics) {
    std::vector<TestedStep> found;
    for_each_json_line(metrics, file_name, [&](const nlohmann::json& line, const auto& complain) {
        if (!is_test_pass(line)) return;
        const auto step = line.find("step"), accuracy = line.find("test_precision");
        if (step == line.end() || !step->is_number_unsigned() ||
            (accuracy != line.end() && !accuracy->is_number()))
            complain();
        found.push_back({step->template get<std::uint64_t>(), metrics_in(line)});
    });
    return found;
}

} // namespace towers
