// A device's memory.
#pragma once

#include "backends/vulkan/memory_types.h"
#include "backends/vulkan/queues.h"

#include <cstdint>
#include <memory>

namespace towers::vulkan {

/// Enough for any driver's compiler to build the pipelines
constexpr std::size_t compiler_memory = std::size_t(160) << 20;

struct VulkanAllocation : Allocation {
    vk::raii::DeviceMemory memory = nullptr;
    vk::raii::Buffer buffer = nullptr; // freed before its memory
};

class Allocator {
public:
    /// Keeps references to all of these.
    Allocator(const DeviceInfo& info, const vk::raii::PhysicalDevice& physical,
              const vk::raii::Device& device, const Queues& queues);

    /// Bytes of Memory::device that the driver says are still to be had; Device::not_told.
    std::uint64_t free_memory() const;

    /// Zeroed memory, which kernels and copies of all queues may use. Throws OutOfMemory where the driver
    /// allows no buffer of this size, and vk::SystemError.
    std::unique_ptr<VulkanAllocation> allocate(std::size_t bytes, Memory memory) const;

private:
    void check_size(std::size_t bytes) const;
    vk::raii::Buffer create_buffer(std::size_t bytes) const;
    void clear(vk::Buffer target) const;

    const DeviceInfo& info_;
    const vk::raii::PhysicalDevice& physical_;
    const vk::raii::Device& device_;
    const Queues& queues_;
    MemoryTypes types_{};       ///< the same for all buffers, since their usage is
    bool tells_budget_ = false; ///< whether the driver says how much memory is free
};

} // namespace towers::vulkan
