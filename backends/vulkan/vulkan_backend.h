// The Vulkan backend: the shared kernel text as SPIR-V on any Vulkan 1.3 device.
#pragma once

#include "backends/backend.h"

namespace towers {

const Backend& vulkan_backend();

/// How many messages the validation layer has sent in this process.
unsigned vulkan_validation_messages();

/// Builds every pipeline of the shared kernel text on a device and runs none: works with drivers that compile
/// for hardware that is not there. Returns how many. Throws DeviceError.
std::size_t vulkan_compile_all(unsigned index);

} // namespace towers
