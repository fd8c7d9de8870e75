// A recording's commands for Vulkan, and where it is cut into submissions. A GPU driver in the operating
// system's kernel takes a submission that works for seconds (2 s are reported) for a hang, and the device is
// lost.
#pragma once

#include "backends/vulkan/headers.h"

#include "backends/kernels.h"

#include <cstdint>
#include <glm/vec3.hpp>
#include <span>
#include <variant>
#include <vector>

namespace towers::vulkan {

struct DispatchCommand {
    vk::Pipeline pipeline;
    ParameterBlock parameters;
    glm::uvec3 groups;
};
struct CopyCommand {
    vk::Buffer source, target;
    vk::BufferCopy region;
};
struct TimestampCommand {
    std::uint32_t index; ///< of the recording's query pool
};
using VulkanCommand = std::variant<DispatchCommand, CopyCommand, vk::MemoryBarrier2, TimestampCommand>;

/// Where a recording can be cut: after each dispatch and copy but the last, and at the end. Barriers and
/// timestamps also order commands across submissions to the same queue.
std::vector<std::size_t> ends_of_work(std::span<const VulkanCommand> commands);

/// Where to cut it: into as few pieces as possible, each of at most a quarter of a second or a single
/// dispatch. `seconds`: the time up to each of ends_of_work(); empty: not measured, one piece.
std::vector<std::size_t> cut_by_time(std::span<const VulkanCommand> commands,
                                     std::span<const double> seconds);

} // namespace towers::vulkan
