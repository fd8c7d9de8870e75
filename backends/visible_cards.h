// NVIDIA's cards that CUDA does not show. CUDA_VISIBLE_DEVICES gives a program its part of a shared machine,
// but Vulkan does not know it.
#pragma once

#include "backends/backend.h"

#include <string>

namespace towers {

/// Why a run must not take the device unless it is named; empty: it may. `cuda`: what CUDA lists. `variable`:
/// the value of CUDA_VISIBLE_DEVICES; null: it is not set. Where CUDA shows a part of a card (MIG), by a UUID
/// of its own, the card is withheld: the two are never used together.
std::string why_withheld(const DeviceInfo& device, const Backend::Listing& cuda, const char* variable);

} // namespace towers
