// Kernels of the CPU's own as loops that all threads share.
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

template<class Params>
Params parameters_of(KernelHandle<Params>, const Launch& launch) {
    return launch.parameters.as<Params>();
}

constexpr std::string_view vectorized_loops = "vectorized loops"; ///< the name of such variants

/// The variant of a kernel, kernels::NAME, that runs loops of the CPU's own on all threads.
template<auto kernel, auto loops>
constexpr CpuVariant vectorized(decltype(Variant::config) config = take_all) {
    return {{kernel.kernel, vectorized_loops, config},
            [](CpuContext& context, const Launch& launch, const LaunchConfig&) {
                return on_all_threads(context, parameters_of(kernel, launch), loops);
            }};
}

} // namespace towers
