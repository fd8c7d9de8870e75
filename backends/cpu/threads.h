// Runs a kernel of the CPU's own on all threads.
#pragma once

#include "backends/cpu/overrides.h"

#include <omp.h>

namespace towers {

template<class Params>
Work on_all_threads(const CpuContext& context, const Params& p, void (*kernel)(const Params&, Invocation)) {
    return [&context, p, kernel] {
#pragma omp parallel num_threads(int(context.threads))
        kernel(p, {uint(omp_get_thread_num()), uint(omp_get_num_threads())});
    };
}

} // namespace towers
