#include "backends/cpu/host_kernels.h"

#include "backends/arithmetic.h"
#include "backends/cpu/overrides.h"
#include "backends/cpu/versions.h"

#include <algorithm>
#include <omp.h>

namespace towers {
namespace host_kernels {
using namespace dialect;

#undef KERNEL
#define KERNEL(name, Params, size) FOR_EACH_PROCESSOR_LEVEL void name(const Params& p, Invocation invocation)

#include "host_kernel_sources.inc" // made by cmake/Shaders.cmake: one #include a kernel

} // namespace host_kernels

HostKernel host_kernel(Kernel kernel) {
    switch (kernel) {
#define TOWERS_KERNEL(name, Params, size, items)                                                             \
    case Kernel::name:                                                                                       \
        return [](const ParameterBlock& parameters, Invocation invocation) {                                 \
            host_kernels::name(parameters.as<Params>(), invocation);                                         \
        };
#define TOWERS_TILED_KERNEL(name, Params, size)                                                              \
    case Kernel::name:                                                                                       \
        return nullptr;
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    }
    return nullptr;
}

namespace {

std::optional<LaunchConfig> host_source_config(const Launch& launch, const DeviceFacts& facts) {
    const KernelInfo& kernel = kernel_info(launch.kernel);
    const unsigned at_once = kernel.item == Item::invocation ? kernel.workgroup_size : 1;
    auto team = unsigned(std::min<std::uint64_t>(facts.busy_groups, ceil_div(items_of(launch), at_once)));
    if (facts.limits->most_groups != 0) team = std::min(team, facts.limits->most_groups);
    return LaunchConfig{.groups = {team, 1, 1}};
}

/// All threads take part, also where there is work for a few: OpenMP's library ends those that a loop leaves
/// out, and must then start them again (as it does where oneDNN leaves some out).
Work prepare_host_source(CpuContext& context, const Launch& launch, const LaunchConfig& config) {
    return [kernel = host_kernel(launch.kernel), parts = std::max(1u, config.groups.x),
            threads = context.threads, parameters = launch.parameters] {
#pragma omp parallel num_threads(int(threads)) if (parts > 1)
        for (auto part = uint(omp_get_thread_num()); part < parts; part += uint(omp_get_num_threads()))
            kernel(parameters, {part, parts});
    };
}

} // namespace

std::span<const CpuVariant> host_sources() {
    static constexpr CpuVariant sources[] = {
#define TOWERS_KERNEL(name, Params, size, items)                                                             \
    {{Kernel::name, shared_source, host_source_config}, prepare_host_source},
#define TOWERS_TILED_KERNEL(name, Params, size)
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    };
    return sources;
}

} // namespace towers
