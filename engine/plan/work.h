// What a launch's algorithm costs, however a device carries it out.
#pragma once

#include "engine/plan/plan.h"

namespace towers {

/// Floating-point operations of the products in convolutions and dense layers; a multiply-add counts as two.
double flops_of(const Launch& launch);
double flops_of(const Plan& plan);

struct Cost {
    double flops = 0; ///< see flops_of()
    double bytes = 0; ///< each tensor's size, once per read and once per write; without the data set
};

Cost cost_of(const Operation& operation, const Plan& plan);

} // namespace towers
