#include "backends/cpu/host_kernels.h"

#include "backends/cpu/versions.h"

namespace towers {
namespace host_kernels {
using namespace dialect;

#undef KERNEL
#define KERNEL(name, Params, size) FOR_EACH_PROCESSOR_LEVEL void name(const Params& p, Invocation invocation)

#include "plain_kernel_texts.inc" // made by cmake/Shaders.cmake: one #include a kernel

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

} // namespace towers
