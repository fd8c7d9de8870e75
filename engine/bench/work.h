// How much work a launch does, from its parameters alone.
#pragma once

#include "backends/kernels.h"

namespace towers {

struct Work {
    /// Of matrix products: two per multiply-add, padding included, as is usual. 0 for the other kernels,
    /// whose time depends on memory.
    double flops = 0;
    /// Counts each element that the kernel needs as read once and each result as written once, but no blocks
    /// of a few words.
    double bytes = 0;
};

Work work_of(const Launch& launch);

} // namespace towers
