#include "apps/towers/parity_report.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace towers {
namespace {

/// `6.1e-08`, `0`, `inf`
std::string short_number(double number) {
    return number == 0 ? std::string("0") : fmt::format("{:.1e}", number);
}

std::string worst_value(const TensorComparison& comparison, std::size_t side) {
    if (!comparison.worst_written[side]) return "never written";
    const double value = comparison.worst_values[side];
    return is_rounded(comparison.type) ? fmt::format("{:.9g}", value)
                                       : fmt::format("{:#x}", std::uint64_t(value));
}

/// What the devices have rounded a product's operands to: `  bf16 beside fp32`; "" if nothing.
std::string rounding_of(const TensorComparison& comparison) {
    const auto [a, b] = comparison.operands;
    if (a != b) return fmt::format("  {} beside {}", name_of(a), name_of(b));
    return a == Precision::fp32 ? "" : fmt::format("  {}", name_of(a));
}

/// The table's remark after a tensor.
const char* remark(const TensorComparison& comparison) {
    if (!comparison.same) return "  DIFFERS";
    if (comparison.never_written > 0) return "  NEVER WRITTEN";
    if (comparison.difference.both_nan == 0) return "";
    return comparison.unexplained() ? "  NaN FROM FINITE NUMBERS" : "  NaN";
}

} // namespace

void print_comparisons(std::FILE* text, const std::vector<TensorComparison>& comparisons,
                       const std::array<DeviceInfo, 2>& devices) {
    fmt::print(text, "{:<31} {:<23} {:<30} {:>13} {:>18}\n", "operation", "kernel", "tensor", "relative norm",
               "largest difference");
    for (const TensorComparison& each : comparisons) {
        const Difference& difference = each.difference;
        const std::string relative = is_rounded(each.type)     ? short_number(difference.relative_norm)
                                     : difference.unequal == 0 ? "equal"
                                                               : "not equal";
        const std::string largest = is_rounded(each.type)
                                        ? short_number(difference.largest)
                                        : fmt::format("{} of {}", difference.unequal, difference.elements);
        fmt::print(text, "{:<31} {:<23} {:<30} {:>13} {:>18}{}{}\n", each.operation, each.kernel, each.tensor,
                   relative, largest, rounding_of(each), remark(each));
    }
    bool first = true;
    for (const TensorComparison& each : comparisons)
        if (!each.same)
            fmt::print(text, "{}differs: {}\n", std::exchange(first, false) ? "\n" : "",
                       describe_difference(each, devices));
}

std::string describe_unexplained(const TensorComparison& comparison) {
    const std::size_t elements = comparison.difference.elements;
    return fmt::format("{}, kernel {}, tensor '{}': {}", comparison.operation, comparison.kernel,
                       comparison.tensor,
                       comparison.never_written > 0
                           ? fmt::format("{} of {} elements are never written on either device",
                                         comparison.never_written, elements)
                           : fmt::format("{} of {} numbers are NaN on both devices, though all that the "
                                         "operation reads is finite",
                                         comparison.difference.both_nan, elements));
}

std::string describe_difference(const TensorComparison& comparison,
                                const std::array<DeviceInfo, 2>& devices) {
    const Difference& difference = comparison.difference;
    const std::string how_far =
        !is_rounded(comparison.type)
            ? fmt::format("{} of {} words are not equal", difference.unequal, difference.elements)
        : difference.unequal > 0
            ? fmt::format("{} of {} numbers are infinite or NaN on one device and not the same on the other",
                          difference.unequal, difference.elements)
            : fmt::format("relative norm of the difference {:.2e}, tolerance {:g}", difference.relative_norm,
                          comparison.tolerance);
    return fmt::format("{}, kernel {}, tensor '{}': {}; worst at [{}]: {} on {}, {} on {}",
                       comparison.operation, comparison.kernel, comparison.tensor, how_far,
                       fmt::join(comparison.worst_index(), ", "), worst_value(comparison, 0), devices[0].id,
                       worst_value(comparison, 1), devices[1].id);
}

void print_drift_header(std::FILE* text, const std::array<DeviceInfo, 2>& devices) {
    fmt::print(text, "{:>6} {:>14} {:>14} {:>20} {:>26}\n", "step", "loss " + devices[0].id,
               "loss " + devices[1].id, "relative difference", "parameters' relative norm");
}

void print_drift(std::FILE* text, const DriftStep& step) {
    fmt::print(text, "{:>6} {:>14.6f} {:>14.6f} {:>20} {:>26}\n", step.step, step.loss[0], step.loss[1],
               short_number(step.relative_loss), short_number(step.relative_parameters));
    std::fflush(text);
}

nlohmann::json to_json(const TensorComparison& comparison) {
    const auto value = [&](std::size_t side) -> nlohmann::json {
        if (!comparison.worst_written[side]) return "never written";
        return comparison.worst_values[side];
    };
    const Difference& difference = comparison.difference;
    return {{"operation", comparison.operation},
            {"kernel", comparison.kernel},
            {"tensor", comparison.tensor},
            {"shape", comparison.shape},
            {"type", name_of(comparison.type)},
            {"relative_norm", difference.relative_norm},
            {"largest_difference", difference.largest},
            {"unequal", difference.unequal},
            {"nan_on_both", difference.both_nan},
            {"never_written", comparison.never_written},
            {"unexplained", comparison.unexplained()},
            {"worst", {{"index", comparison.worst_index()}, {"values", {value(0), value(1)}}}},
            {"operands", {name_of(comparison.operands[0]), name_of(comparison.operands[1])}},
            {"tolerance", comparison.tolerance},
            {"same", comparison.same}};
}

nlohmann::json to_json(const Drift& drift) {
    nlohmann::json steps = nlohmann::json::array();
    for (const DriftStep& step : drift.steps)
        steps.push_back({{"step", step.step},
                         {"losses", step.loss},
                         {"relative_loss", step.relative_loss},
                         {"relative_parameters", step.relative_parameters}});
    nlohmann::json diverged = nlohmann::json::array();
    for (const std::string& message : drift.diverged)
        diverged.push_back(message.empty() ? nlohmann::json() : nlohmann::json(message));
    return {{"steps", steps}, {"relative_averages", drift.relative_averages}, {"diverged", diverged}};
}

} // namespace towers
