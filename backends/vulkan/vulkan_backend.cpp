#include "backends/vulkan/vulkan_backend.h"

#include "backends/driver_call.h"
#include "backends/headroom.h"
#include "backends/vulkan/error.h"
#include "backends/vulkan/instance.h"
#include "backends/vulkan/recording.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <thread>

namespace towers {
namespace vulkan {
namespace {

bool is_want_of_memory(const vk::SystemError& error) {
    return error.code() == vk::Result::eErrorOutOfHostMemory ||
           error.code() == vk::Result::eErrorOutOfDeviceMemory ||
           error.code() == vk::Result::eErrorMemoryMapFailed;
}

class VulkanDevice final : public Device {
public:
    VulkanDevice(std::shared_ptr<const Instance> instance, unsigned index, const OpenOptions& options)
        : instance_(std::move(instance)), physical_(instance_->devices()[index]),
          details_(details_of(*instance_, index)), info_(describe(*instance_, index, details_)),
          facts_(facts_of(info_, details_, options)), measure_(options.measure) {
        require_headroom(info_.id, compiler_memory + driver_threads() * (thread_stack + thread_heap));
        {
            const std::lock_guard lock(thread_starts()); // not when the driver starts them: it may hang
            require_threads(info_.id, unsigned(driver_threads()));
        }
        guard("opening the device", [&] {
            device_ =
                create_device(physical_, facts_.fragments.operands != 0 ? details_.matrices : Matrices());
            queues_.emplace(physical_, device_);
            memory_.emplace(info_, physical_, device_, *queues_);
            pipelines_.emplace(physical_, device_, pipeline_cache_file(physical_));
            recorder_.emplace(device_, *queues_, *pipelines_,
                              [this](std::size_t bytes) { return do_allocate(bytes, Memory::device); });
        });
    }

    ~VulkanDevice() override { finish(); }

    const DeviceInfo& info() const override { return info_; }
    std::uint64_t free_memory() const override {
        const std::uint64_t free = guard("asking for free memory", [&] { return memory_->free_memory(); });
        if (info_.kind != DeviceKind::software) return free;
        return std::min({free, info_.memory, available_memory()}); // it is this process's memory
    }
    std::vector<Candidate> candidates(const Launch& launch) const override {
        return towers::candidates(variants(), launch, facts_);
    }
    bool save_scratch() override { return towers::save_scratch(facts_); }

protected:
    std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) override {
        if (info_.kind == DeviceKind::software) require_memory(info_.id, bytes);
        return guard(fmt::format("allocating {} bytes", bytes),
                     [&] { return std::unique_ptr<Allocation>(memory_->allocate(bytes, memory)); });
    }

    std::size_t do_scratch_bytes(const Launch& launch) const override {
        return towers::scratch_bytes(launch, variants(), facts_);
    }

    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands,
                                              const Buffer* scratch) override {
        return guard("recording", [&] {
            auto recording = encode(commands, scratch, queues_->families().front());
            if (queues_->families().size() > 1 && !has_launches(commands))
                recording->for_copy_queues = encode(commands, scratch, queues_->families().back());
            return std::unique_ptr<RecordingState>(std::move(recording));
        });
    }

    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override {
        guard("submitting", [&] {
            const VulkanRecording& recorded = on_queue(recording, submission.queue);
            if (recorded.family != &queues_->kernels()) reset_timestamps(recorded, submission);
            Lane& lane = queues_->lane_of(submission.queue);
            if (recorded.pieces.empty() && recorded.measured) recorder_->write_pieces(recorded);
            const auto moment_of = [](const Lane& each, Ticket ticket) {
                return vk::SemaphoreSubmitInfo{
                    .semaphore = *each.timeline, .value = ticket, .stageMask = moment};
            };
            std::vector<vk::SemaphoreSubmitInfo> waits;
            for (const Submission& each : after)
                if (const Lane& other = queues_->lane_of(each.queue); &other != &lane)
                    waits.push_back(moment_of(other, each.ticket));
            const vk::SemaphoreSubmitInfo signal = moment_of(lane, submission.ticket);
            const auto submit = [&](const vk::raii::CommandBuffer& piece, bool first, bool last) {
                const vk::CommandBufferSubmitInfo commands{.commandBuffer = *piece};
                vk::SubmitInfo2 info;
                info.setCommandBufferInfos(commands);
                if (first) info.setWaitSemaphoreInfos(waits);
                if (last) info.setSignalSemaphoreInfos(signal);
                const DriverCall call("vkQueueSubmit2");
                lane.queue.submit2(info);
            };
            if (recorded.pieces.empty()) {
                for (const Submission& each : after) do_wait(each);
                recorder_->measure(recorded, lane.queue, submit);
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
            for (const std::uint64_t tick : ticks) seconds.push_back(queues_->seconds_at(tick));
            return seconds;
        });
    }

    void do_wait(Submission submission) override {
        guard("running", [&] { queues_->wait_for(queues_->lane_of(submission.queue), submission.ticket); });
    }

    void do_finish() noexcept override {
        try {
            queues_->wait_for_all();
        } catch (...) { // the device is lost, which Vulkan reports in finite time; nothing runs any more
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
                fmt::format("{} ({}): {}: {}", info_.id, info_.name, doing, message_of(error));
            if (is_want_of_memory(error)) throw OutOfMemory(what);
            if (error.code() == vk::Result::eErrorDeviceLost) throw DeviceLost(what);
            throw DeviceError(what);
        }
    }

    std::unique_ptr<VulkanRecording> encode(std::span<const Command> commands, const Buffer* scratch,
                                            const Family& family) {
        auto recording = recorder_->encode(commands, scratch, family, facts_);
        // Copies are short, and there is no need to measure what cannot be cut.
        if (!measure_ || !has_launches(commands) || ends_of_work(recording->commands).size() < 2)
            recorder_->write_pieces(*recording);
        return recording;
    }

    /// The form of the recording for this queue's family.
    static const VulkanRecording& on_queue(const RecordingState& recording, Queue queue) {
        const auto& recorded = static_cast<const VulkanRecording&>(recording);
        return queue != Queue::compute && recorded.for_copy_queues ? *recorded.for_copy_queues : recorded;
    }

    /// The host resets the queries if the commands cannot, which only the kernels' queues can. It must not
    /// while they may still be written.
    void reset_timestamps(const VulkanRecording& recorded, Submission next) {
        if (!*recorded.timestamps) return;
        if (recorded.timed.ticket != 0) do_wait(recorded.timed);
        recorded.timestamps.reset(0, recorded.timestamp_count);
        recorded.timed = next;
    }

    /// The number of threads that a software driver starts in this process
    std::size_t driver_threads() const {
        return info_.kind == DeviceKind::software ? std::thread::hardware_concurrency() : 0;
    }

    std::shared_ptr<const Instance> instance_;
    const vk::raii::PhysicalDevice& physical_;
    Details details_;
    DeviceInfo info_;
    DeviceFacts facts_;
    bool measure_; ///< see OpenOptions
    vk::raii::Device device_ = nullptr;
    std::optional<Queues> queues_;
    std::optional<Allocator> memory_;
    std::optional<Pipelines> pipelines_;
    std::optional<Recorder> recorder_;
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
            for (unsigned i = 0; i < instance->devices().size(); ++i)
                listing.devices.push_back(describe(*instance, i, details_of(*instance, i)));
            const auto& weak = instance->left_out();
            listing.left_out.insert(listing.left_out.end(), weak.begin(), weak.end());
            if (listing.devices.empty()) listing.absence = "no device has what the kernels need";
        } catch (const DriverFailure& failure) { // although it worked in a child process
            listing.absence = fmt::format("the Vulkan driver did not start: {}", failure.what());
        } catch (const Absent& absent) {
            listing.absence = absent.what();
        } catch (const vk::SystemError& error) {
            listing.devices.clear();
            listing.absence =
                fmt::format("the Vulkan driver did not list its devices: {}", message_of(error));
        }
        return listing;
    }

    std::unique_ptr<Device> open(unsigned index, const OpenOptions& options) const override {
        try {
            return std::make_unique<VulkanDevice>(Instance::shared(options.validate), index, options);
        } catch (const vk::SystemError& error) { // from asking what the device is
            throw DeviceError(fmt::format("vulkan:{}: opening the device: {}", index, message_of(error)));
        }
    }
};

} // namespace
} // namespace vulkan

const Backend& vulkan_backend() {
    static const vulkan::VulkanBackend backend;
    return backend;
}

} // namespace towers
