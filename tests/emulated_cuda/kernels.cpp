// The kernels that are not tiled, as backends/cuda/kernels.cu compiles them with nvcc.
#include "tests/emulated_cuda/words.h"

#include "shaders/kernel.h"
#include "tests/emulated_cuda/kernel_list.h"

namespace towers::cuda_text {
namespace {
#include "cuda_kernel_sources.inc"
} // namespace

#define TOWERS_KERNEL(name, Params, size, items) EMULATED_KERNEL(name, name, Params, size)
#define TOWERS_TILED_KERNEL(name, Params, size)
#include "shaders/kernels.def"

} // namespace towers::cuda_text
