// The kernels as the CUDA runtime launches them.
#pragma once

#include "backends/device.h"

namespace towers::cuda {

/// The __global__ function of the shared text that runs a launch on a device, with a tile that suits.
const void* function_of(const Launch& launch, const DeviceInfo& info);

} // namespace towers::cuda
