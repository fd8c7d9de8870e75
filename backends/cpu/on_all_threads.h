// Work that a team of threads shares out, as the shared kernel texts are.
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

/// One past the last of the items that a thread takes, from `invocation.begin(items)` on.
inline uint end_of(Invocation invocation, uint items) {
    return Invocation{invocation.id + 1, invocation.count}.begin(items);
}

} // namespace towers
