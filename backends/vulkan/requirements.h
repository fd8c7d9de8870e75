// What the kernels require of a Vulkan device, and what a device lacks.
#pragma once

#include <cstdint>
#include <string>

namespace towers::vulkan {

/// A device's properties that matter to the kernels, as its driver reports them.
struct Abilities {
    std::uint32_t version = 0; ///< as VK_MAKE_API_VERSION packs it
    bool compute_queue = false;
    bool buffer_device_address = false, timeline_semaphore = false, synchronization2 = false,
         maintenance4 = false;
    bool subgroup_basic = false, subgroup_arithmetic = false, full_subgroups = false; ///< in compute shaders
    std::uint32_t workgroup_invocations = 0, workgroup_width = 0, shared_memory = 0, push_constants = 0;
};

/// What the device lacks for the kernels, in words for the user; empty if nothing.
std::string missing(const Abilities& abilities);

} // namespace towers::vulkan
