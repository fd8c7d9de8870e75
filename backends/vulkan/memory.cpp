#include "backends/vulkan/memory.h"

#include "backends/driver_call.h"
#include "backends/headroom.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <string_view>

namespace towers::vulkan {

Allocator::Allocator(const DeviceInfo& info, const vk::raii::PhysicalDevice& physical,
                     const vk::raii::Device& device, const Queues& queues)
    : info_(info), physical_(physical), device_(device), queues_(queues) {
    types_ = choose_memory_types(physical.getMemoryProperties(),
                                 create_buffer(0).getMemoryRequirements().memoryTypeBits);
    for (const vk::ExtensionProperties& extension : physical.enumerateDeviceExtensionProperties())
        tells_budget_ |= extension.extensionName == std::string_view(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
}

std::uint64_t Allocator::free_memory() const {
    if (!tells_budget_) return Device::not_told;
    const auto chain = physical_.getMemoryProperties2<vk::PhysicalDeviceMemoryProperties2,
                                                      vk::PhysicalDeviceMemoryBudgetPropertiesEXT>();
    const auto& memory = chain.get<vk::PhysicalDeviceMemoryBudgetPropertiesEXT>();
    const std::uint32_t heap = chain.get<vk::PhysicalDeviceMemoryProperties2>()
                                   .memoryProperties.memoryTypes[types_.device]
                                   .heapIndex;
    const std::uint64_t budget = memory.heapBudget[heap], used = memory.heapUsage[heap];
    return budget - std::min(used, budget);
}

std::unique_ptr<VulkanAllocation> Allocator::allocate(std::size_t bytes, Memory memory) const {
    check_size(bytes);
    auto allocation = std::make_unique<VulkanAllocation>();
    allocation->bytes = bytes;
    allocation->buffer = create_buffer(bytes);
    const vk::MemoryRequirements needs = allocation->buffer.getMemoryRequirements();
    const vk::MemoryAllocateFlagsInfo flags{.flags = vk::MemoryAllocateFlagBits::eDeviceAddress};
    const vk::MemoryAllocateInfo wanted{.pNext = &flags,
                                        .allocationSize = needs.size,
                                        .memoryTypeIndex =
                                            memory == Memory::device ? types_.device : types_.staging};
    {
        const DriverCall call("vkAllocateMemory");
        allocation->memory = vk::raii::DeviceMemory(device_, wanted);
    }
    allocation->buffer.bindMemory(*allocation->memory, 0);
    allocation->address =
        device_.getBufferAddress(vk::BufferDeviceAddressInfo{.buffer = *allocation->buffer});
    if (memory == Memory::staging) {
        allocation->host = static_cast<std::byte*>(allocation->memory.mapMemory(0, VK_WHOLE_SIZE));
        std::memset(allocation->host, 0, bytes);
    } else {
        // Not for staging memory, which may be needed for the results of finished work.
        require_headroom(info_.id, compiler_memory);
        clear(*allocation->buffer);
    }
    return allocation;
}

void Allocator::check_size(std::size_t bytes) const {
    const auto chain =
        physical_.getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDeviceMaintenance3Properties,
                                 vk::PhysicalDeviceMaintenance4Properties>();
    const auto check = [&](const char* limit, std::uint64_t most) {
        if (bytes > most)
            throw OutOfMemory(fmt::format("{} ({}): a buffer of {} bytes exceeds the driver's {} of {}",
                                          info_.id, info_.name, bytes, limit, most));
    };
    check("maxBufferSize", chain.get<vk::PhysicalDeviceMaintenance4Properties>().maxBufferSize);
    check("maxMemoryAllocationSize",
          chain.get<vk::PhysicalDeviceMaintenance3Properties>().maxMemoryAllocationSize);
}

vk::raii::Buffer Allocator::create_buffer(std::size_t bytes) const {
    using Usage = vk::BufferUsageFlagBits;
    // Buffers are shared by the families of kernels and copies. With exclusive ownership each copy would need
    // transfers before and after it, and drivers gain nothing from exclusive buffers.
    vk::BufferCreateInfo info{.size = std::max<std::size_t>(256, bytes),
                              .usage = Usage::eStorageBuffer | Usage::eShaderDeviceAddress |
                                       Usage::eTransferSrc | Usage::eTransferDst};
    std::vector<std::uint32_t> families;
    for (const Family& family : queues_.families()) families.push_back(family.index);
    if (families.size() > 1)
        info.setSharingMode(vk::SharingMode::eConcurrent).setQueueFamilyIndices(families);
    return {device_, info};
}

void Allocator::clear(vk::Buffer target) const {
    const vk::raii::CommandBuffer buffer = begin_commands(device_, queues_.kernels());
    buffer.fillBuffer(target, 0, VK_WHOLE_SIZE, 0);
    const Work& work = queues_.kernels().work;
    const vk::MemoryBarrier2 cleared{.srcStageMask = vk::PipelineStageFlagBits2::eClear,
                                     .srcAccessMask = vk::AccessFlagBits2::eTransferWrite,
                                     .dstStageMask = work.stages,
                                     .dstAccessMask = work.reads | work.writes};
    buffer.pipelineBarrier2(vk::DependencyInfo{}.setMemoryBarriers(cleared));
    buffer.end();
    const vk::raii::Queue& queue = queues_.first_lane().queue;
    {
        const DriverCall call("vkQueueSubmit");
        queue.submit(vk::SubmitInfo{}.setCommandBuffers(*buffer));
    }
    queues_.wait_for(queue);
}

} // namespace towers::vulkan
