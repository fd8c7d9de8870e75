#include "backends/cuda/functions.h"

#include <string>

namespace towers {

namespace cuda_text { // where nvcc compiled them

#define TOWERS_TILED_SOURCE(source, height, width, threads)                                                  \
    extern const void* const source##_##height##_##width##_function;
#include "tiled_kernel_sources.inc"
#undef TOWERS_TILED_SOURCE

#define TOWERS_FRAGMENT_SOURCE(source, operands, height, width, threads)                                     \
    extern const void* const source##_##operands##_##height##_##width##_function;
#include "fragment_kernel_sources.inc"
#undef TOWERS_FRAGMENT_SOURCE

#define TOWERS_KERNEL(name, Params, size, items) extern const void* const name##_function;
#define TOWERS_TILED_KERNEL(name, Params, size)
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL

} // namespace cuda_text

const void* cuda::function_of(Kernel kernel, KernelSource source, const std::optional<Tile>& tile,
                              Precision operands) {
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
    const std::string name(kernel_info(kernel).name);
    if (source == KernelSource::fragments) {
        const std::string fragments = name + "_fragments";
#define TOWERS_FRAGMENT_SOURCE(text, type, tall, wide, many)                                                 \
    if (fragments == #text && operands == Precision::type && tile->height == tall && tile->width == wide)    \
        return cuda_text::text##_##type##_##tall##_##wide##_function;
#include "fragment_kernel_sources.inc"
#undef TOWERS_FRAGMENT_SOURCE
        return nullptr;
    }
    const std::string tiled = name + (source == KernelSource::quads ? "_quads" : "");
#define TOWERS_TILED_SOURCE(name, tall, wide, many)                                                          \
    if (tiled == #name && tile->height == tall && tile->width == wide)                                       \
        return cuda_text::name##_##tall##_##wide##_function;
#include "tiled_kernel_sources.inc"
#undef TOWERS_TILED_SOURCE
    return nullptr;
}

} // namespace towers
