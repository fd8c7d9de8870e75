// What a device rounds the operands of a step's products to.
#pragma once

#include "backends/precision.h"
#include "engine/step/network.h"

#include <compare>
#include <map>
#include <string>
#include <string_view>

namespace towers {

/// What a device makes of a product's operands.
struct Operands {
    Precision type;         ///< that it rounds them to
    bool two_parts = false; ///< or of float32 two bf16 numbers, the rounded one and what is left

    Operands(Precision rounded) : type(rounded) {}
    static Operands of_two_parts();
    auto operator<=>(const Operands&) const = default;
};
/// `bf16`, `fp32 as two bf16 parts`
std::string_view name_of(const Operands& operands);
/// What a name is of; float32 if of none.
Operands operands_named(std::string_view name);

/// Parts of the multiplications of convolutions and dense layers (see flops_of()) by what the device makes of
/// their operands. They add up to 1; empty: there are no products.
using OperandParts = std::map<Operands, double>;

/// What the device makes of a launch's operands. What it does not tell is float32.
Operands operands_of(const Device& device, const Launch& launch);

/// As the device would record the plan now.
OperandParts operand_parts(const Device& device, const Plan& plan);
/// Of a whole step, with all its micro-batches.
OperandParts operand_parts(const Device& device, const TrainingPlan& training);

/// For people: `81.2 % of the multiplications in bf16`; `all multiplications in fp32`. If fp32 is all that is
/// `allowed` and all that there is, "".
std::string describe(const OperandParts& parts, Precision allowed);

} // namespace towers
