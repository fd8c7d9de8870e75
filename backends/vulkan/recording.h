// A recording on a Vulkan device: commands as Vulkan takes them, then command buffers.
#pragma once

#include "backends/launch/lowering.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/pieces.h"
#include "backends/vulkan/pipelines.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace towers::vulkan {

/// A timestamp is taken when all earlier commands are done.
constexpr auto moment = vk::PipelineStageFlagBits2::eAllCommands;

struct VulkanRecording : RecordingState {
    const Family* family = nullptr;
    std::unique_ptr<Allocation> scratch;         ///< its own, between the stages of launches; may be null
    mutable std::vector<VulkanCommand> commands; ///< emptied when `pieces` is made
    mutable std::vector<double> seconds;         ///< of each dispatch and copy
    mutable bool measured = false;               ///< well enough to cut it
    /// Submitted one after the other, so that none works too long for a driver
    mutable std::vector<vk::raii::CommandBuffer> pieces;
    vk::raii::QueryPool timestamps = nullptr;
    std::uint32_t timestamp_count = 0;
    mutable Submission timed; ///< the last one that writes timestamps, if the host resets them
    /// The same for queues of a family other than the kernels'; null if there are none or it has launches
    std::unique_ptr<VulkanRecording> for_copy_queues;
};

/// Makes recordings of one device. All throw vk::SystemError.
class Recorder {
public:
    /// Keeps references to the first three.
    Recorder(const vk::raii::Device& device, const Queues& queues, Pipelines& pipelines,
             ScratchMemory::Allocate allocate)
        : device_(device), queues_(queues), pipelines_(pipelines), allocate_(std::move(allocate)) {}

    /// Only a list of commands yet, which write_pieces() or measure() make command buffers of.
    std::unique_ptr<VulkanRecording> encode(std::span<const Command> commands, const Buffer* scratch,
                                            const Family& family, const DeviceFacts& facts) const;

    /// Cuts the recording by the measured times.
    void write_pieces(const VulkanRecording& recording) const;

    using Submit = std::function<void(const vk::raii::CommandBuffer& piece, bool first, bool last)>;
    /// Runs each dispatch and copy alone and measures it, at a recording's first submission and, if that took
    /// long, at the second, since some drivers compile a kernel when it first runs. The host's clock is exact
    /// enough: its overhead costs at worst one more piece.
    void measure(const VulkanRecording& recording, const vk::raii::Queue& queue, const Submit& submit) const;

private:
    vk::raii::CommandBuffer write(const VulkanRecording& recording, std::size_t first,
                                  std::size_t last) const;

    const vk::raii::Device& device_;
    const Queues& queues_;
    Pipelines& pipelines_;
    ScratchMemory::Allocate allocate_;
};

} // namespace towers::vulkan
