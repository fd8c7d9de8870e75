// What a recording does, as Vulkan takes it, and where it is cut into submissions. A kernel driver takes a
// submission that works for some seconds for a hang (2 s are reported), and the device is lost.
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

/// Where a recording can be cut: behind each dispatch and copy but the last, and at the end. Barriers and
/// timestamps order what stands before and behind them also across submissions to one queue.
std::vector<std::size_t> ends_of_work(std::span<const VulkanCommand> commands);

/// Where it is cut: into as few pieces as possible that take a quarter of a second at most, or are a single
/// dispatch. `seconds`: that each of ends_of_work() took; empty: not measured, it is one piece.
std::vector<std::size_t> cut_by_time(std::span<const VulkanCommand> commands,
                                     std::span<const double> seconds);

} // namespace towers::vulkan
