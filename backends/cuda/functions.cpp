#include "backends/cuda/functions.h"

#include "backends/tiles.h"

namespace towers {

namespace cuda_text { // where nvcc compiled them

#define FOR_EACH_TILE(EACH, name)                                                                            \
    EACH(name, 32, 16)                                                                                       \
    EACH(name, 32, 32)                                                                                       \
    EACH(name, 32, 64)                                                                                       \
    EACH(name, 64, 16)                                                                                       \
    EACH(name, 64, 32)                                                                                       \
    EACH(name, 64, 64)                                                                                       \
    EACH(name, 128, 16)                                                                                      \
    EACH(name, 128, 32)                                                                                      \
    EACH(name, 128, 64)

#define DECLARE(name, height, width) extern const void* const name##_##height##_##width##_function;
#define TOWERS_KERNEL(name, Params, size) extern const void* const name##_function;
#define TOWERS_TILED_KERNEL(name, Params, size) FOR_EACH_TILE(DECLARE, name)
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL

} // namespace cuda_text

const void* cuda::function_of(const Launch& launch, const DeviceInfo& info) {
    const auto tile = tile_of(launch, info);
    switch (launch.kernel) {
#define TOWERS_KERNEL(name, Params, size)                                                                    \
    case Kernel::name:                                                                                       \
        return cuda_text::name##_function;
#define RETURN_TILE(name, tall, wide)                                                                        \
    if (tile->height == tall && tile->width == wide) return cuda_text::name##_##tall##_##wide##_function;
#define TOWERS_TILED_KERNEL(name, Params, size)                                                              \
    case Kernel::name:                                                                                       \
        FOR_EACH_TILE(RETURN_TILE, name)                                                                     \
        break;
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    }
    return nullptr;
}

} // namespace towers
