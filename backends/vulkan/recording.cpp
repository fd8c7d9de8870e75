#include "backends/vulkan/recording.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace towers::vulkan {
namespace {

void write_barrier(const vk::raii::CommandBuffer& buffer, const vk::MemoryBarrier2& memory) {
    buffer.pipelineBarrier2(vk::DependencyInfo{}.setMemoryBarriers(memory));
}

/// Adds commands to a recording.
class Encoder {
public:
    Encoder(VulkanRecording& recording, Pipelines& pipelines, const DeviceFacts& facts)
        : recording_(recording), pipelines_(pipelines), facts_(facts) {}

    void add(const LoweredLaunch& launch) {
        const std::vector<Stage>& stages = launch.staged.stages;
        for (const StageLaunch& each : stages.front()) dispatch(each);
        const std::size_t later = stages.size() - 1;
        if (later_stages_.size() < later) later_stages_.resize(later);
        for (std::size_t i = 0; i < later; ++i)
            for (const StageLaunch& each : stages[i + 1]) later_stages_[i].push_back(&each);
    }

    void add(const Copy& copy) {
        const auto handle = [](const BufferSlice& slice) {
            return *static_cast<const VulkanAllocation&>(slice.buffer->allocation()).buffer;
        };
        recording_.commands.push_back(CopyCommand{.source = handle(copy.source),
                                                  .target = handle(copy.target),
                                                  .region = {.srcOffset = copy.source.offset,
                                                             .dstOffset = copy.target.offset,
                                                             .size = copy.source.bytes}});
    }

    void add(const Barrier&) {
        add_later_stages();
        barrier();
    }

    void add(const Timestamp&) {
        add(Barrier{});
        if (!*recording_.timestamps) return;
        recording_.commands.push_back(TimestampCommand{recording_.timestamp_count++});
        // Only a barrier on the timestamp's own stage keeps later commands from starting before it.
        barrier(moment);
    }

    /// Before a barrier all that stands before it is done, also the launches' later stages.
    void add_later_stages() {
        for (const auto& stage : later_stages_) {
            barrier();
            for (const StageLaunch* each : stage) dispatch(*each);
        }
        later_stages_.clear();
    }

    void barrier() { barrier(recording_.family->work.stages); }

private:
    void barrier(vk::PipelineStageFlags2 after) {
        const Work& work = recording_.family->work;
        recording_.commands.push_back(vk::MemoryBarrier2{.srcStageMask = after,
                                                         .srcAccessMask = work.writes,
                                                         .dstStageMask = work.stages,
                                                         .dstAccessMask = work.reads | work.writes});
    }

    void dispatch(const StageLaunch& each) {
        const Dispatch dispatch = dispatch_of(each, facts_);
        recording_.commands.push_back(
            DispatchCommand{pipelines_.pipeline(dispatch), dispatch.parameters, dispatch.groups});
    }

    VulkanRecording& recording_;
    Pipelines& pipelines_;
    const DeviceFacts& facts_;
    std::vector<std::vector<const StageLaunch*>> later_stages_; ///< to add before the next barrier
};

/// Writes commands into a command buffer.
struct Writer {
    const vk::raii::CommandBuffer& buffer;
    const VulkanRecording& recording;
    vk::PipelineLayout layout;

    void operator()(const DispatchCommand& dispatch) const {
        buffer.bindPipeline(vk::PipelineBindPoint::eCompute, dispatch.pipeline);
        buffer.pushConstants<std::byte>(layout, vk::ShaderStageFlagBits::eCompute, 0,
                                        dispatch.parameters.bytes);
        buffer.dispatch(dispatch.groups.x, dispatch.groups.y, dispatch.groups.z);
    }
    void operator()(const CopyCommand& copy) const {
        buffer.copyBuffer(copy.source, copy.target, copy.region);
    }
    void operator()(const vk::MemoryBarrier2& memory) const { write_barrier(buffer, memory); }
    void operator()(const TimestampCommand& timestamp) const {
        buffer.writeTimestamp2(moment, *recording.timestamps, timestamp.index);
    }
};

} // namespace

std::unique_ptr<VulkanRecording> Recorder::encode(std::span<const Command> commands, const Buffer* scratch,
                                                  const Family& family, const DeviceFacts& facts) const {
    auto recording = std::make_unique<VulkanRecording>();
    recording->family = &family;
    Lowered lowered = lower(commands, variants(), facts, {scratch, allocate_});
    recording->scratch = std::move(lowered.scratch);
    const auto timestamps = std::uint32_t(std::ranges::count_if(
        commands, [](const Command& each) { return std::holds_alternative<Timestamp>(each); }));
    if (timestamps != 0 && family.timestamp_mask != 0)
        recording->timestamps =
            vk::raii::QueryPool(device_, vk::QueryPoolCreateInfo{.queryType = vk::QueryType::eTimestamp,
                                                                 .queryCount = timestamps});
    Encoder encoder(*recording, pipelines_, facts);
    // Makes earlier submissions' writes visible; submitting makes the host's writes visible.
    encoder.barrier();
    for (const LoweredCommand& command : lowered.commands)
        std::visit([&](const auto& each) { encoder.add(each); }, command);
    encoder.add_later_stages();
    return recording;
}

vk::raii::CommandBuffer Recorder::write(const VulkanRecording& recording, std::size_t first,
                                        std::size_t last) const {
    const Family& family = *recording.family;
    vk::raii::CommandBuffer buffer = begin_commands(device_, family);
    if (first == 0 && *recording.timestamps && &family == &queues_.kernels())
        buffer.resetQueryPool(*recording.timestamps, 0, recording.timestamp_count);
    const Writer writer{buffer, recording, pipelines_.layout()};
    for (std::size_t i = first; i < last; ++i) std::visit(writer, recording.commands[i]);
    if (last == recording.commands.size()) // makes what the commands wrote visible to the host
        write_barrier(buffer, {.srcStageMask = family.work.stages,
                               .srcAccessMask = family.work.writes,
                               .dstStageMask = vk::PipelineStageFlagBits2::eHost,
                               .dstAccessMask = vk::AccessFlagBits2::eHostRead});
    buffer.end();
    return buffer;
}

void Recorder::write_pieces(const VulkanRecording& recording) const {
    std::size_t first = 0;
    for (const std::size_t end : cut_by_time(recording.commands, recording.seconds)) {
        recording.pieces.push_back(write(recording, first, end));
        first = end;
    }
    recording.commands = {};
}

void Recorder::measure(const VulkanRecording& recording, const vk::raii::Queue& queue,
                       const Submit& submit) const {
    using Clock = std::chrono::steady_clock;
    queues_.wait_for(queue); // for earlier submissions
    const std::vector<std::size_t> ends = ends_of_work(recording.commands);
    const bool again = !recording.seconds.empty();
    recording.seconds.resize(ends.size(), std::numeric_limits<double>::infinity());
    for (std::size_t i = 0, first = 0; i < ends.size(); first = ends[i++]) {
        const vk::raii::CommandBuffer piece = write(recording, first, ends[i]);
        const Clock::time_point begin = Clock::now();
        submit(piece, i == 0, i + 1 == ends.size());
        queues_.wait_for(queue);
        const std::chrono::duration<double> seconds = Clock::now() - begin;
        recording.seconds[i] = std::min(recording.seconds[i], seconds.count());
    }
    recording.measured = again || cut_by_time(recording.commands, recording.seconds).size() == 1;
}

} // namespace towers::vulkan
