// The kernels as the CUDA runtime launches them.
#pragma once

#include "backends/launch/variants.h"

namespace towers::cuda {

/// The __global__ function of a kernel's source; null: it was not compiled for the tile. `tile`: of a tiled
/// kernel.
const void* function_of(Kernel kernel, KernelSource source, const std::optional<Tile>& tile);

} // namespace towers::cuda
