#include "backends/vulkan/requirements.h"

#include "backends/launch/tiles.h"
#include "backends/vulkan/headers.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

namespace towers::vulkan {
namespace {

unsigned largest_workgroup() {
    unsigned largest = 0;
    for (const KernelInfo& kernel : all_kernels()) largest = std::max(largest, kernel.workgroup_size);
    return largest;
}

} // namespace

std::string missing(const Abilities& abilities) {
    if (abilities.version < VK_API_VERSION_1_3)
        return fmt::format("it offers Vulkan {}.{}, but 1.3 is needed",
                           VK_API_VERSION_MAJOR(abilities.version), VK_API_VERSION_MINOR(abilities.version));
    std::vector<std::string> all;
    const auto need = [&](bool there, const char* what) {
        if (!there) all.push_back(fmt::format("it has no {}", what));
    };
    const auto need_at_least = [&](const char* limit, std::uint32_t has, std::size_t needed) {
        if (has < needed) all.push_back(fmt::format("its {} is {}, but {} is needed", limit, has, needed));
    };
    need(abilities.compute_queue, "compute queue");
    need(abilities.buffer_device_address, "bufferDeviceAddress");
    need(abilities.timeline_semaphore, "timelineSemaphore");
    need(abilities.synchronization2, "synchronization2");
    need(abilities.maintenance4, "maintenance4");
    need(abilities.subgroup_basic, "subgroups in compute shaders");
    need(abilities.subgroup_arithmetic, "subgroup arithmetic in compute shaders");
    need(abilities.full_subgroups, "computeFullSubgroups");
    need_at_least("maxComputeWorkGroupInvocations", abilities.workgroup_invocations, largest_workgroup());
    need_at_least("maxComputeWorkGroupSize[0]", abilities.workgroup_width, largest_workgroup());
    need_at_least("maxComputeSharedMemorySize", abilities.shared_memory, largest_tile_bytes);
    need_at_least("maxPushConstantsSize", abilities.push_constants, ParameterBlock::capacity);
    return fmt::format("{}", fmt::join(all, "; "));
}

} // namespace towers::vulkan
