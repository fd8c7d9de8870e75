// The kernels as the CUDA runtime launches them.
#pragma once

#include "backends/variants.h"

namespace towers::cuda {

/// The __global__ function of a kernel's shared text. `tile`: for tiled kernels.
const void* function_of(Kernel kernel, const std::optional<Tile>& tile);

/// The shared text of each kernel.
std::span<const Variant> variants();

} // namespace towers::cuda
