// Withholds NVIDIA cards that CUDA does not show. CUDA_VISIBLE_DEVICES gives a program its part of a shared
// machine, but Vulkan ignores it.
#pragma once

#include "backends/backend.h"

#include <string>

namespace towers {

/// Why a run may take the device only if it is named; empty: it may take it. `cuda`: the devices that CUDA
/// lists. `variable`: the value of CUDA_VISIBLE_DEVICES; null if it is not set; without CUDA's devices only
/// UUIDs in it tell which cards it means. If CUDA shows a part of a card (MIG), which has its own UUID, the
/// card is withheld: the two are never used together.
std::string why_withheld(const DeviceInfo& device, const Backend::Listing& cuda, const char* variable);

} // namespace towers
