#include "backends/vulkan/vulkan_backend.h"

#include "backends/headroom.h"
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/instance.h"
#include "backends/vulkan/pieces.h"
#include "backends/vulkan/pipelines.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <thread>

namespace towers {
namespace vulkan {
namespace {

struct VulkanAllocation : Allocation {
    vk::raii::DeviceMemory memory = nullptr;
    vk::raii::Buffer buffer = nullptr; // freed before the memory under it
};

/// Where everything happens that commands do.
struct Work {
    vk::PipelineStageFlags2 stages;
    vk::AccessFlags2 reads, writes;
};
constexpr Work copies{vk::PipelineStageFlagBits2::eCopy, vk::AccessFlagBits2::eTransferRead,
                      vk::AccessFlagBits2::eTransferWrite};
constexpr Work kernels_and_copies{copies.stages | vk::PipelineStageFlagBits2::eComputeShader,
                                  copies.reads | vk::AccessFlagBits2::eShaderStorageRead,
                                  copies.writes | vk::AccessFlagBits2::eShaderStorageWrite};

/// A queue family that this device uses.
struct Family {
    std::uint32_t index;
    Work work;
    std::uint64_t timestamp_mask; ///< of the bits that count; 0: its queues have no clock
    vk::raii::CommandPool pool;
};

/// A queue of the driver's, which several Queues may share.
struct Lane {
    QueuePlace place;
    vk::raii::Queue queue;
    vk::raii::Semaphore timeline; ///< its value: the last ticket that has finished
    Ticket submitted = 0;
};

struct VulkanRecording : RecordingState {
    const Family* family = nullptr;
    std::unique_ptr<Allocation> scratch;         ///< of sums that are split
    std::size_t scratch_used = 0;                ///< since the last barrier
    std::vector<Launch> sums;                    ///< that the next barrier must let run first
    mutable std::vector<VulkanCommand> commands; ///< until they are in `pieces`
    mutable std::vector<double> seconds;         ///< that each dispatch and copy took
    mutable bool measured = false;               ///< well enough to cut it
    /// Submitted one behind the other, so that none works too long for a driver
    mutable std::vector<vk::raii::CommandBuffer> pieces;
    vk::raii::QueryPool timestamps = nullptr;
    std::uint32_t timestamp_count = 0;
    mutable Submission timed; ///< the last one that writes the timestamps, where the host resets them
    /// The same for queues of another family than the kernels'; null if there are none, or if it has launches
    std::unique_ptr<VulkanRecording> for_copy_queues;
};

/// A timestamp is taken when all stages of what came before are done.
constexpr auto moment = vk::PipelineStageFlagBits2::eAllCommands;

bool is_want_of_memory(const vk::SystemError& error) {
    return error.code() == vk::Result::eErrorOutOfHostMemory ||
           error.code() == vk::Result::eErrorOutOfDeviceMemory ||
           error.code() == vk::Result::eErrorMemoryMapFailed;
}

/// Enough for any driver's compiler to build the pipelines
constexpr std::size_t compiler_memory = std::size_t(160) << 20;

class VulkanDevice final : public Device {
public:
    VulkanDevice(std::shared_ptr<const Instance> instance, unsigned index, const OpenOptions& options)
        : instance_(std::move(instance)), physical_(instance_->devices()[index]),
          info_(describe(physical_, index)),
          overrides_(options.overrides && has_subgroups(physical_, vk::SubgroupFeatureFlagBits::eShuffle)),
          limits_(options.limits), measure_(options.measure) {
        require_headroom(info_.id, compiler_memory + driver_threads() * (thread_stack + thread_heap));
        guard("opening the device", [&] { open(); });
    }

    ~VulkanDevice() override { finish(); }

    const DeviceInfo& info() const override { return info_; }

    std::uint64_t free_memory() const override {
        if (!tells_budget_) return not_told;
        const auto chain = physical_.getMemoryProperties2<vk::PhysicalDeviceMemoryProperties2,
                                                          vk::PhysicalDeviceMemoryBudgetPropertiesEXT>();
        const auto& memory = chain.get<vk::PhysicalDeviceMemoryBudgetPropertiesEXT>();
        const std::uint32_t heap = chain.get<vk::PhysicalDeviceMemoryProperties2>()
                                       .memoryProperties.memoryTypes[memory_type(~0u, Memory::device)]
                                       .heapIndex;
        const std::uint64_t budget = memory.heapBudget[heap], used = memory.heapUsage[heap];
        return budget - std::min(used, budget);
    }

protected:
    std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) override {
        check_size(bytes);
        return guard(fmt::format("allocating {} bytes", bytes), [&] {
            using Usage = vk::BufferUsageFlagBits;
            auto allocation = std::make_unique<VulkanAllocation>();
            allocation->bytes = bytes;
            // Copies may come from a family of their own. Owned by one family after the other, memory would
            // have to be handed over before and after each of them; drivers gain nothing from that for
            // buffers.
            vk::BufferCreateInfo info{.size = std::max<std::size_t>(256, bytes),
                                      .usage = Usage::eStorageBuffer | Usage::eShaderDeviceAddress |
                                               Usage::eTransferSrc | Usage::eTransferDst};
            std::vector<std::uint32_t> families;
            for (const Family& family : families_) families.push_back(family.index);
            if (families.size() > 1)
                info.setSharingMode(vk::SharingMode::eConcurrent).setQueueFamilyIndices(families);
            allocation->buffer = vk::raii::Buffer(device_, info);
            const vk::MemoryRequirements needs = allocation->buffer.getMemoryRequirements();
            const vk::MemoryAllocateFlagsInfo flags{.flags = vk::MemoryAllocateFlagBits::eDeviceAddress};
            allocation->memory = vk::raii::DeviceMemory(
                device_,
                vk::MemoryAllocateInfo{.pNext = &flags,
                                       .allocationSize = needs.size,
                                       .memoryTypeIndex = memory_type(needs.memoryTypeBits, memory)});
            allocation->buffer.bindMemory(*allocation->memory, 0);
            allocation->address =
                device_.getBufferAddress(vk::BufferDeviceAddressInfo{.buffer = *allocation->buffer});
            if (memory == Memory::staging) {
                allocation->host = static_cast<std::byte*>(allocation->memory.mapMemory(0, VK_WHOLE_SIZE));
                std::memset(allocation->host, 0, bytes);
            } else {
                // Not for staging memory, which may be for the results of finished work.
                require_headroom(info_.id, compiler_memory);
                clear(*allocation->buffer);
            }
            return std::unique_ptr<Allocation>(std::move(allocation));
        });
    }

    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands) override {
        return guard("recording", [&] {
            std::unique_ptr<VulkanRecording> recording = encode(commands, families_.front());
            if (families_.size() > 1 && !has_launches(commands))
                recording->for_copy_queues = encode(commands, families_.back());
            return std::unique_ptr<RecordingState>(std::move(recording));
        });
    }

    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override {
        guard("submitting", [&] {
            const VulkanRecording& recorded = on_queue(recording, submission.queue);
            if (recorded.family != &families_.front()) reset_timestamps(recorded, submission);
            Lane& lane = lane_of(submission.queue);
            if (recorded.pieces.empty() && recorded.measured) write_pieces(recorded);
            const auto moment_of = [](const Lane& each, Ticket ticket) {
                return vk::SemaphoreSubmitInfo{
                    .semaphore = *each.timeline, .value = ticket, .stageMask = moment};
            };
            std::vector<vk::SemaphoreSubmitInfo> waits;
            for (const Submission& each : after)
                if (const Lane& other = lane_of(each.queue); &other != &lane)
                    waits.push_back(moment_of(other, each.ticket));
            const vk::SemaphoreSubmitInfo signal = moment_of(lane, submission.ticket);
            const auto submit = [&](const vk::raii::CommandBuffer& piece, bool first, bool last) {
                const vk::CommandBufferSubmitInfo commands{.commandBuffer = *piece};
                vk::SubmitInfo2 info;
                info.setCommandBufferInfos(commands);
                if (first) info.setWaitSemaphoreInfos(waits);
                if (last) info.setSignalSemaphoreInfos(signal);
                lane.queue.submit2(info);
            };
            if (recorded.pieces.empty()) {
                for (const Submission& each : after) do_wait(each);
                measure(recorded, lane.queue, submit);
            }
            for (const vk::raii::CommandBuffer& piece : recorded.pieces)
                submit(piece, &piece == &recorded.pieces.front(), &piece == &recorded.pieces.back());
            lane.submitted = submission.ticket;
        });
    }

    std::vector<double> do_timestamps(const RecordingState& recording) const override {
        const VulkanRecording& recorded = on_queue(recording, recording.last_submission.queue);
        if (!*recorded.timestamps || recorded.timestamp_count == 0) return {};
        return guard("reading timestamps", [&] {
            const auto [result, ticks] = recorded.timestamps.getResults<std::uint64_t>(
                0, recorded.timestamp_count, recorded.timestamp_count * sizeof(std::uint64_t),
                sizeof(std::uint64_t), vk::QueryResultFlagBits::e64 | vk::QueryResultFlagBits::eWait);
            std::vector<double> seconds;
            for (const std::uint64_t tick : ticks)
                seconds.push_back(double(count_ticks(tick)) * timestamp_period_);
            return seconds;
        });
    }

    void do_wait(Submission submission) override {
        guard("running", [&] { wait_for(lane_of(submission.queue), submission.ticket); });
    }

    void do_finish() noexcept override {
        try {
            for (const Lane& lane : lanes_) wait_for(lane, lane.submitted);
        } catch (...) { // the device is lost, as Vulkan says in finite time: nothing runs any more
        }
    }

private:
    /// Adds the device and the action to an error from the driver.
    template<class Function>
    auto guard(const std::string& doing, Function function) const -> decltype(function()) {
        try {
            return function();
        } catch (const vk::SystemError& error) {
            const std::string what =
                fmt::format("{} ({}): {}: {}", info_.id, info_.name, doing, error.what());
            if (is_want_of_memory(error)) throw OutOfMemory(what);
            if (error.code() == vk::Result::eErrorDeviceLost) throw DeviceLost(what);
            throw DeviceError(what);
        }
    }

    void open() {
        timestamp_period_ = double(physical_.getProperties().limits.timestampPeriod) * 1e-9;

        for (const vk::ExtensionProperties& extension : physical_.enumerateDeviceExtensionProperties())
            tells_budget_ |= extension.extensionName == std::string_view(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
        device_ = create_device(physical_);
        const auto places = queue_places(physical_);
        families_.push_back(open_family(places.front().family, kernels_and_copies));
        if (places.back().family != places.front().family)
            families_.push_back(open_family(places.back().family, copies));
        const vk::SemaphoreTypeCreateInfo timeline{.semaphoreType = vk::SemaphoreType::eTimeline};
        for (std::size_t i = 0; i < queue_count; ++i) {
            const auto there = std::find_if(lanes_.begin(), lanes_.end(),
                                            [&](const Lane& lane) { return lane.place == places[i]; });
            lane_of_[i] = std::size_t(there - lanes_.begin());
            if (there == lanes_.end())
                lanes_.push_back({places[i], vk::raii::Queue(device_, places[i].family, places[i].index),
                                  vk::raii::Semaphore(device_, {.pNext = &timeline})});
        }
        pipelines_.emplace(physical_, device_, pipeline_cache_file(physical_));
    }

    Family open_family(std::uint32_t index, const Work& work) const {
        const std::uint32_t bits = physical_.getQueueFamilyProperties()[index].timestampValidBits;
        return {index, work, bits == 0 ? 0 : UINT64_MAX >> (64 - bits),
                vk::raii::CommandPool(device_, {.queueFamilyIndex = index})};
    }

    Lane& lane_of(Queue queue) { return lanes_[lane_of_[std::size_t(queue)]]; }

    /// The form of the recording that the queue takes.
    static const VulkanRecording& on_queue(const RecordingState& recording, Queue queue) {
        const auto& recorded = static_cast<const VulkanRecording&>(recording);
        return queue != Queue::compute && recorded.for_copy_queues ? *recorded.for_copy_queues : recorded;
    }

    /// Where the commands cannot, as only the kernels' queues can. The host must not while they may be
    /// written.
    void reset_timestamps(const VulkanRecording& recorded, Submission next) {
        if (!*recorded.timestamps) return;
        if (recorded.timed.ticket != 0) do_wait(recorded.timed);
        recorded.timestamps.reset(0, recorded.timestamp_count);
        recorded.timed = next;
    }

    /// The ticks since the first one that was ever read. The counter may wrap: of moments that are read one
    /// after another, none is further than half its period from the one before.
    std::int64_t count_ticks(std::uint64_t tick) const {
        std::uint64_t mask = UINT64_MAX; // of the bits that all families' counters have
        for (const Family& family : families_)
            if (family.timestamp_mask != 0) mask &= family.timestamp_mask;
        if (!last_tick_) last_tick_ = tick;
        const std::uint64_t ahead = (tick - *last_tick_) & mask;
        ticks_ += std::int64_t(ahead > mask / 2 ? ahead - mask - 1 : ahead);
        last_tick_ = tick;
        return ticks_;
    }

    void wait_for(const Lane& lane, Ticket ticket) const {
        const vk::Result result = device_.waitSemaphores(
            vk::SemaphoreWaitInfo{}.setSemaphores(*lane.timeline).setValues(ticket), UINT64_MAX);
        if (result != vk::Result::eSuccess) throw DeviceError(vk::to_string(result));
    }

    /// Threads that a software driver starts in this process
    std::size_t driver_threads() const {
        return info_.kind == DeviceKind::software ? std::thread::hardware_concurrency() : 0;
    }

    void check_size(std::size_t bytes) const {
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

    std::uint32_t memory_type(std::uint32_t allowed, Memory memory) const {
        using Property = vk::MemoryPropertyFlagBits;
        const vk::PhysicalDeviceMemoryProperties properties = physical_.getMemoryProperties();
        const auto find = [&](vk::MemoryPropertyFlags wanted) -> std::optional<std::uint32_t> {
            for (std::uint32_t i = 0; i < properties.memoryTypeCount; ++i)
                if ((allowed >> i & 1u) != 0 && (properties.memoryTypes[i].propertyFlags & wanted) == wanted)
                    return i;
            return {};
        };
        const vk::MemoryPropertyFlags visible = Property::eHostVisible | Property::eHostCoherent;
        if (memory == Memory::device) return find(Property::eDeviceLocal).value_or(0);
        // The host reads cached memory many times faster.
        if (const auto cached = find(visible | Property::eHostCached)) return *cached;
        return find(visible).value(); // every implementation has it
    }

    std::unique_ptr<VulkanRecording> encode(std::span<const Command> commands, const Family& family) {
        auto recording = std::make_unique<VulkanRecording>();
        recording->family = &family;
        const Capacity capacity = capacity_of(info_, limits_ != nullptr ? *limits_ : SharingLimits{});
        if (const std::size_t bytes = scratch_bytes(commands, capacity))
            recording->scratch = do_allocate(bytes, Memory::device);
        make_timestamps(*recording, commands);
        // For what earlier submissions wrote; submission itself makes the host's writes visible.
        barrier(*recording);
        for (const Command& command : commands)
            std::visit([&](const auto& each) { encode(*recording, each, capacity); }, command);
        encode_sums(*recording, capacity);
        // Copies are short. What else cannot be cut need not be measured.
        if (!measure_ || !has_launches(commands) || ends_of_work(recording->commands).size() < 2)
            write_pieces(*recording);
        return recording;
    }

    vk::raii::CommandBuffer begin(const Family& family) const {
        vk::raii::CommandBuffer buffer = std::move(vk::raii::CommandBuffers(
            device_, vk::CommandBufferAllocateInfo{.commandPool = *family.pool,
                                                   .level = vk::CommandBufferLevel::ePrimary,
                                                   .commandBufferCount = 1})[0]);
        buffer.begin(vk::CommandBufferBeginInfo{.flags = vk::CommandBufferUsageFlagBits::eSimultaneousUse});
        return buffer;
    }

    /// The commands [first, last) of a recording.
    vk::raii::CommandBuffer write(const VulkanRecording& recording, std::size_t first,
                                  std::size_t last) const {
        vk::raii::CommandBuffer buffer = begin(*recording.family);
        if (first == 0 && *recording.timestamps && recording.family == &families_.front())
            buffer.resetQueryPool(*recording.timestamps, 0, recording.timestamp_count);
        for (std::size_t i = first; i < last; ++i)
            std::visit([&](const auto& each) { write(buffer, recording, each); }, recording.commands[i]);
        if (last == recording.commands.size()) // makes what the commands wrote visible to the host
            barrier(buffer, {.srcStageMask = recording.family->work.stages,
                             .srcAccessMask = recording.family->work.writes,
                             .dstStageMask = vk::PipelineStageFlagBits2::eHost,
                             .dstAccessMask = vk::AccessFlagBits2::eHostRead});
        buffer.end();
        return buffer;
    }

    void write(const vk::raii::CommandBuffer& buffer, const VulkanRecording&,
               const DispatchCommand& dispatch) const {
        buffer.bindPipeline(vk::PipelineBindPoint::eCompute, dispatch.pipeline);
        buffer.pushConstants<std::byte>(pipelines_->layout(), vk::ShaderStageFlagBits::eCompute, 0,
                                        dispatch.parameters.bytes);
        buffer.dispatch(dispatch.groups.x, dispatch.groups.y, dispatch.groups.z);
    }
    static void write(const vk::raii::CommandBuffer& buffer, const VulkanRecording&,
                      const CopyCommand& copy) {
        buffer.copyBuffer(copy.source, copy.target, copy.region);
    }
    static void write(const vk::raii::CommandBuffer& buffer, const VulkanRecording&,
                      const vk::MemoryBarrier2& memory) {
        barrier(buffer, memory);
    }
    static void write(const vk::raii::CommandBuffer& buffer, const VulkanRecording& recording,
                      const TimestampCommand& timestamp) {
        buffer.writeTimestamp2(moment, *recording.timestamps, timestamp.index);
    }

    /// Cuts the recording by what has been measured.
    void write_pieces(const VulkanRecording& recording) const {
        std::size_t first = 0;
        for (const std::size_t end : cut_by_time(recording.commands, recording.seconds)) {
            recording.pieces.push_back(write(recording, first, end));
            first = end;
        }
        recording.commands = {};
    }

    /// A recording's first submission: each dispatch and copy alone, since nobody knows yet how long they
    /// take. If they take long, so the second, since some drivers compile a kernel when it first runs. The
    /// host's clock is exact enough: what it adds to short ones costs a submission more at worst.
    template<class Submit>
    void measure(const VulkanRecording& recording, const vk::raii::Queue& queue, const Submit& submit) const {
        using Clock = std::chrono::steady_clock;
        queue.waitIdle(); // for what was submitted before
        const std::vector<std::size_t> ends = ends_of_work(recording.commands);
        const bool again = !recording.seconds.empty();
        recording.seconds.resize(ends.size(), std::numeric_limits<double>::infinity());
        for (std::size_t i = 0, first = 0; i < ends.size(); first = ends[i++]) {
            const vk::raii::CommandBuffer piece = write(recording, first, ends[i]);
            const Clock::time_point begin = Clock::now();
            submit(piece, i == 0, i + 1 == ends.size());
            queue.waitIdle();
            const std::chrono::duration<double> seconds = Clock::now() - begin;
            recording.seconds[i] = std::min(recording.seconds[i], seconds.count());
        }
        recording.measured = again || cut_by_time(recording.commands, recording.seconds).size() == 1;
    }

    static void barrier(VulkanRecording& recording) { barrier(recording, recording.family->work.stages); }

    static void barrier(VulkanRecording& recording, vk::PipelineStageFlags2 after) {
        const Work& work = recording.family->work;
        recording.commands.push_back(vk::MemoryBarrier2{.srcStageMask = after,
                                                        .srcAccessMask = work.writes,
                                                        .dstStageMask = work.stages,
                                                        .dstAccessMask = work.reads | work.writes});
    }

    static void barrier(const vk::raii::CommandBuffer& buffer, const vk::MemoryBarrier2& memory) {
        buffer.pipelineBarrier2(vk::DependencyInfo{}.setMemoryBarriers(memory));
    }

    void make_timestamps(VulkanRecording& recording, std::span<const Command> commands) {
        const auto count =
            std::uint32_t(std::count_if(commands.begin(), commands.end(), [](const auto& each) {
                return std::holds_alternative<Timestamp>(each);
            }));
        if (count == 0 || recording.family->timestamp_mask == 0) return;
        recording.timestamps = vk::raii::QueryPool(
            device_, vk::QueryPoolCreateInfo{.queryType = vk::QueryType::eTimestamp, .queryCount = count});
    }

    void encode(VulkanRecording& recording, const Launch& launch, const Capacity& capacity) {
        const std::uint64_t scratch = recording.scratch ? recording.scratch->address : 0;
        SplitLaunch parts = split(launch, capacity, scratch + recording.scratch_used);
        recording.scratch_used += parts.scratch_bytes;
        std::move(parts.sums.begin(), parts.sums.end(), std::back_inserter(recording.sums));
        dispatch(recording, parts.product, capacity);
    }

    /// What stands before a barrier is done with it, also the sums that are split.
    void encode_sums(VulkanRecording& recording, const Capacity& capacity) {
        recording.scratch_used = 0;
        if (recording.sums.empty()) return;
        barrier(recording);
        for (const Launch& sum : recording.sums) dispatch(recording, sum, capacity);
        recording.sums.clear();
    }

    void dispatch(VulkanRecording& recording, const Launch& launch, const Capacity& capacity) {
        const Dispatch dispatch = dispatch_of(launch, info_, capacity, overrides_);
        recording.commands.push_back(
            DispatchCommand{pipelines_->pipeline(dispatch), dispatch.parameters, dispatch.groups});
    }

    void encode(VulkanRecording& recording, const Copy& copy, const Capacity&) {
        const auto handle = [](const BufferSlice& slice) {
            return *static_cast<const VulkanAllocation&>(slice.buffer->allocation()).buffer;
        };
        recording.commands.push_back(CopyCommand{.source = handle(copy.source),
                                                 .target = handle(copy.target),
                                                 .region = {.srcOffset = copy.source.offset,
                                                            .dstOffset = copy.target.offset,
                                                            .size = copy.source.bytes}});
    }

    void encode(VulkanRecording& recording, const Barrier&, const Capacity& capacity) {
        encode_sums(recording, capacity);
        barrier(recording);
    }

    void encode(VulkanRecording& recording, const Timestamp&, const Capacity& capacity) {
        encode_sums(recording, capacity);
        barrier(recording);
        if (!*recording.timestamps) return;
        recording.commands.push_back(TimestampCommand{recording.timestamp_count++});
        // Only a barrier on the timestamp's own stage keeps what follows from starting before it.
        barrier(recording, moment);
    }

    void clear(vk::Buffer target) {
        const vk::raii::CommandBuffer buffer = begin(families_.front());
        buffer.fillBuffer(target, 0, VK_WHOLE_SIZE, 0);
        const Work& work = families_.front().work;
        barrier(buffer, {.srcStageMask = vk::PipelineStageFlagBits2::eClear,
                         .srcAccessMask = vk::AccessFlagBits2::eTransferWrite,
                         .dstStageMask = work.stages,
                         .dstAccessMask = work.reads | work.writes});
        buffer.end();
        const vk::raii::Queue& queue = lanes_.front().queue;
        queue.submit(vk::SubmitInfo{}.setCommandBuffers(*buffer));
        queue.waitIdle();
    }

    std::shared_ptr<const Instance> instance_;
    const vk::raii::PhysicalDevice& physical_;
    DeviceInfo info_;
    bool overrides_;
    const SharingLimits* limits_; ///< may be null
    bool measure_;                ///< see OpenOptions
    bool tells_budget_ = false;   ///< whether the driver says how much memory is free
    vk::raii::Device device_ = nullptr;
    std::vector<Family> families_; ///< the kernels', and the copies' if that is another
    std::vector<Lane> lanes_;      ///< the first is Queue::compute's
    std::array<std::size_t, queue_count> lane_of_{};
    std::optional<Pipelines> pipelines_;
    double timestamp_period_ = 0;                    ///< seconds per tick
    mutable std::optional<std::uint64_t> last_tick_; ///< that was read
    mutable std::int64_t ticks_ = 0;                 ///< from the first one that was read to the last one
};

class VulkanBackend final : public Backend {
public:
    std::string_view name() const override { return "vulkan"; }

    void try_drivers() const override { Instance::drivers(); }

    Listing list(const OpenOptions& options) const override {
        Listing listing;
        listing.left_out = Instance::drivers().left_out;
        try {
            const auto instance = Instance::shared(options.validate);
            unsigned index = 0;
            for (const auto& device : instance->devices())
                listing.devices.push_back(describe(device, index++));
            const auto& weak = instance->left_out();
            listing.left_out.insert(listing.left_out.end(), weak.begin(), weak.end());
            if (listing.devices.empty()) listing.absence = "no device has what the kernels need";
        } catch (const DriverFailure& failure) { // after it had worked in a process of its own
            listing.absence = fmt::format("the Vulkan driver did not start: {}", failure.what());
        } catch (const Absent& absent) {
            listing.absence = absent.what();
        }
        return listing;
    }

    std::unique_ptr<Device> open(unsigned index, const OpenOptions& options) const override {
        return std::make_unique<VulkanDevice>(Instance::shared(options.validate), index, options);
    }
};

} // namespace
} // namespace vulkan

const Backend& vulkan_backend() {
    static const vulkan::VulkanBackend backend;
    return backend;
}

} // namespace towers
