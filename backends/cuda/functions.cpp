#include "backends/cuda/functions.h"

#include "backends/sharing.h"

namespace towers {

namespace cuda_text { // where nvcc compiled them

#define TOWERS_TILED_TEXT(name, height, width) extern const void* const name##_##height##_##width##_function;
#include "tiled_kernel_texts.inc"
#undef TOWERS_TILED_TEXT

#define TOWERS_KERNEL(name, Params, size, items) extern const void* const name##_function;
#define TOWERS_TILED_KERNEL(name, Params, size)
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL

} // namespace cuda_text

const void* cuda::function_of(Kernel kernel, const std::optional<Tile>& tile) {
    if (tile) {
#define TOWERS_TILED_TEXT(name, tall, wide)                                                                  \
    if (kernel == Kernel::name && tile->height == tall && tile->width == wide)                               \
        return cuda_text::name##_##tall##_##wide##_function;
#include "tiled_kernel_texts.inc"
#undef TOWERS_TILED_TEXT
        return nullptr;
    }
    switch (kernel) {
#define TOWERS_KERNEL(name, Params, size, items)                                                             \
    case Kernel::name:                                                                                       \
        return cuda_text::name##_function;
#define TOWERS_TILED_KERNEL(name, Params, size)
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    default:
        return nullptr;
    }
}

std::span<const Variant> cuda::variants() {
    static constexpr Variant all[] = {
#define TOWERS_KERNEL(name, Params, size, items) {Kernel::name, shared_text, offer_shared_text},
#define TOWERS_TILED_KERNEL(name, Params, size) TOWERS_KERNEL(name, Params, size, )
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    };
    return all;
}

} // namespace towers
