// The Vulkan backend: the shared kernel source as SPIR-V on any Vulkan 1.3 device.
#pragma once

#include "backends/backend.h"

namespace towers {

const Backend& vulkan_backend();

/// How many messages the validation layer has sent in this process.
unsigned vulkan_validation_messages();

} // namespace towers
