// The kernels as the CUDA runtime launches them.
#pragma once

#include "backends/launch/variants.h"

namespace towers::cuda {

/// The __global__ function of a kernel's source; null: it was not compiled for the tile. `tile`: of a tiled
/// kernel. `operands`: of a source by fragments.
const void* function_of(Kernel kernel, KernelSource source, const std::optional<Tile>& tile,
                        Precision operands = Precision::fp32);

} // namespace towers::cuda
