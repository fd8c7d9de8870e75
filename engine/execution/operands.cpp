#include "engine/execution/operands.h"

#include "backends/launch/quads.h"
#include "engine/plan/work.h"

#include <algorithm>
#include <fmt/format.h>

namespace towers {
namespace {

/// Adds the multiplications of as many runs of the plan.
void add(OperandParts& sums, const Device& device, const Plan& plan, double runs) {
    for (const Level& level : plan.levels())
        for (const Operation& operation : level) {
            const auto* const launch = std::get_if<Launch>(&operation.work);
            const double flops = launch != nullptr ? flops_of(*launch) : 0;
            if (flops > 0) sums[operands_of(device, *launch)] += runs * flops;
        }
}

OperandParts as_parts(OperandParts sums) {
    double sum = 0;
    for (const auto& [operands, flops] : sums) sum += flops;
    for (auto& [operands, flops] : sums) flops /= sum;
    return sums;
}

} // namespace

Operands Operands::of_two_parts() {
    Operands operands(Precision::fp32);
    operands.two_parts = true;
    return operands;
}

std::string_view name_of(const Operands& operands) {
    return operands.two_parts ? "fp32 as two bf16 parts" : name_of(operands.type);
}

Operands operands_named(std::string_view name) {
    if (name == name_of(Operands::of_two_parts())) return Operands::of_two_parts();
    return precision_of(name).value_or(Precision::fp32);
}

Operands operands_of(const Device& device, const Launch& launch) {
    for (const Candidate& each : device.candidates(launch)) {
        if (!each.used) continue;
        const bool on_units = is_by_fragments(each.variant);
        return on_units && each.config.operands == Precision::fp32 ? Operands::of_two_parts()
                                                                   : Operands(each.config.operands);
    }
    return Precision::fp32;
}

OperandParts operand_parts(const Device& device, const Plan& plan) {
    OperandParts sums;
    add(sums, device, plan, 1);
    return as_parts(std::move(sums));
}

OperandParts operand_parts(const Device& device, const TrainingPlan& training) {
    OperandParts sums;
    for (std::size_t i = 0; i < training.micro_plans.size(); ++i)
        add(sums, device, training.micro_plans[i], double(std::ranges::count(training.order, i)));
    add(sums, device, training.plan, 1);
    return as_parts(std::move(sums));
}

std::string describe(const OperandParts& parts, Precision allowed) {
    if (parts.empty()) return {};
    if (parts.size() == 1) {
        const Operands all = parts.begin()->first;
        if (all == Precision::fp32 && allowed == Precision::fp32) return {};
        return fmt::format("all multiplications in {}", name_of(all));
    }
    std::string text;
    for (const auto& [operands, part] : parts) {
        if (operands == Precision::fp32) continue;
        // Neither none nor all of them
        const double percent = std::clamp(100 * part, 0.1, 99.9);
        text += text.empty()
                    ? fmt::format("{:.1f} % of the multiplications in {}", percent, name_of(operands))
                    : fmt::format(", {:.1f} % in {}", percent, name_of(operands));
    }
    return text;
}

} // namespace towers
