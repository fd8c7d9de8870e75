// What a device rounds the operands of a step's products to.
#pragma once

#include "backends/precision.h"
#include "engine/step/network.h"

#include <map>
#include <string>

namespace towers {

/// Parts of the multiplications of convolutions and dense layers (see flops_of()) by what the device rounds
/// their operands to. They add up to 1; empty: there are no products.
using OperandParts = std::map<Precision, double>;

/// What the device rounds a launch's operands to. What it does not tell is float32.
Precision operands_of(const Device& device, const Launch& launch);

/// As the device would record the plan now.
OperandParts operand_parts(const Device& device, const Plan& plan);
/// Of a whole step, with all its micro-batches.
OperandParts operand_parts(const Device& device, const TrainingPlan& training);

/// For people: `81.2 % of the multiplications in bf16`; `all multiplications in fp32`. If fp32 is all that is
/// `allowed` and all that there is, "".
std::string describe(const OperandParts& parts, Precision allowed);

} // namespace towers
