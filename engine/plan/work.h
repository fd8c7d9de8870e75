// The work that a launch's algorithm needs, whatever a device does to get it done.
#pragma once

#include "engine/plan/plan.h"

namespace towers {

/// Of the products of convolutions and dense layers; a multiply-add counts as two.
double flops_of(const Launch& launch);
double flops_of(const Plan& plan);

struct Work {
    double flops = 0; ///< see flops_of()
    double bytes = 0; ///< every tensor once, as often as it is read or written; not the data set's
};

Work work_of(const Operation& operation, const Plan& plan);

} // namespace towers
