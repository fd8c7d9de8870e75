// The kernels as the CUDA runtime launches them.
#pragma once

#include "backends/launch/variants.h"

namespace towers::cuda {

struct CudaVariant : Variant {
    /// The __global__ function; null if it runs a launch as several. `tile`: that of the offer.
    const void* (*function)(const std::optional<Tile>& tile);
};

/// The texts by quads, with channels as they are and padded, Winograd's convolutions, then the shared
/// text of each kernel.
std::span<const CudaVariant> variants();

} // namespace towers::cuda
