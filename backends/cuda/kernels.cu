// The kernels that are not tiled; tiled_kernel.cu.in makes the others.
#include "shaders/kernel.h"

namespace towers::cuda_text {
namespace {
#include "cuda_kernel_sources.inc"
} // namespace

#define TOWERS_KERNEL(name, Params, size, items)                                                             \
    extern const void* const name##_function;                                                                \
    const void* const name##_function = reinterpret_cast<const void*>(&name);
#define TOWERS_TILED_KERNEL(name, Params, size)
#include "shaders/kernels.def"

} // namespace towers::cuda_text
