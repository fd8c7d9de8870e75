#include "backends/cuda/functions.h"

#include <string>

namespace towers {

namespace cuda_text { // where nvcc compiled them

#define TOWERS_TILED_SOURCE(source, height, width, threads)                                                  \
    extern const void* const source##_##height##_##width##_function;
#include "tiled_kernel_sources.inc"
#undef TOWERS_TILED_SOURCE

#define TOWERS_KERNEL(name, Params, size, items) extern const void* const name##_function;
#define TOWERS_TILED_KERNEL(name, Params, size)
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL

} // namespace cuda_text

const void* cuda::function_of(Kernel kernel, KernelSource source, const std::optional<Tile>& tile) {
    switch (kernel) {
#define TOWERS_KERNEL(name, Params, size, items)                                                             \
    case Kernel::name:                                                                                       \
        return cuda_text::name##_function;
#define TOWERS_TILED_KERNEL(name, Params, size)
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    default:
        break;
    }
    const std::string tiled =
        std::string(kernel_info(kernel).name) + (source == KernelSource::quads ? "_quads" : "");
#define TOWERS_TILED_SOURCE(name, tall, wide, many)                                                          \
    if (tiled == #name && tile->height == tall && tile->width == wide)                                       \
        return cuda_text::name##_##tall##_##wide##_function;
#include "tiled_kernel_sources.inc"
#undef TOWERS_TILED_SOURCE
    return nullptr;
}

} // namespace towers
