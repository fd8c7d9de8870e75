// Which of a driver's types of memory hold the buffers.
#pragma once

#include "backends/vulkan/headers.h"

#include <cstdint>

namespace towers::vulkan {

/// The type of each Memory
struct MemoryTypes {
    std::uint32_t device, staging;
};

/// `allowed`: a bit for each type that a buffer may have.
MemoryTypes choose_memory_types(const vk::PhysicalDeviceMemoryProperties& memory,
                                std::uint32_t allowed = ~0u);

} // namespace towers::vulkan
