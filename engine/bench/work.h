// How much work a launch is, from its parameters alone.
#pragma once

#include "backends/kernels.h"

namespace towers {

struct Work {
    /// Of products of matrices, two a multiply-add, padding included, as such figures are usually given; 0
    /// for the other kernels, whose time memory decides.
    double flops = 0;
    /// Each element that the kernel needs read once and each result written once; blocks of a few words left
    /// out.
    double bytes = 0;
};

Work work_of(const Launch& launch);

} // namespace towers
