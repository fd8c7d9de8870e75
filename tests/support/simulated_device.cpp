#include "tests/support/simulated_device.h"

#include "engine/plan/work.h"
#include "engine/recipes/recipe_plan.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace towers::test {
namespace {

thread_local Clock::time_point virtual_now{};

Clock::time_point this_threads_time() { return virtual_now; }

/// A sleeping thread may wake up this much too late.
constexpr std::chrono::microseconds late{150};

/// Pages of zeros that nobody touches cost nothing, so device memory can be real memory too.
struct ZeroedMemory : Allocation {
    Memory kind;
    std::unique_ptr<std::byte, void (*)(void*)> memory{nullptr, std::free};
    ZeroedMemory(std::size_t size, Memory where)
        : kind(where), memory(static_cast<std::byte*>(std::calloc(size + 256, 1)), std::free) {
        address = (reinterpret_cast<std::uint64_t>(memory.get()) + 255) / 256 * 256;
        bytes = size;
        host = reinterpret_cast<std::byte*>(address);
    }
};

struct SimulatedRecording : RecordingState {
    double seconds = 0;
    std::vector<double> timestamps; ///< seconds from the recording's begin
};

Clock::duration duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Memory memory_of(const BufferSlice& slice) {
    return static_cast<const ZeroedMemory&>(slice.buffer->allocation()).kind;
}

double seconds_of_step(const SimulatedDevice::Seconds& seconds, const Launch& launch) {
    if (launch.kernel != Kernel::distort_images) return 0;
    return seconds(launch.parameters.as<DistortImagesParams>().count);
}

} // namespace

std::function<double(const Launch&)> seconds_by_work(const Recipe& recipe, unsigned share, double forward,
                                                     double backward) {
    const StateLayout layout = layout_of(recipe);
    const TrainingPlan training = plan_shared_step(spec_of(recipe, layout, share, share));
    double flops[2] = {};
    const auto is_backward = [](const Launch& launch) {
        return std::string_view(kernel_info(launch.kernel).name).find("backward") != std::string_view::npos;
    };
    for (const Level& level : training.plan.levels())
        for (const Operation& operation : level)
            if (const auto* launch = std::get_if<Launch>(&operation.work))
                flops[is_backward(*launch)] += flops_of(*launch);
    const double of_forward = forward / flops[0], of_backward = backward / flops[1];
    return [=](const Launch& launch) {
        return flops_of(launch) * (is_backward(launch) ? of_backward : of_forward);
    };
}

VirtualClock::VirtualClock() {
    virtual_now = {};
    Clock::source = this_threads_time;
}

VirtualClock::~VirtualClock() { Clock::source = std::chrono::steady_clock::now; }

SimulatedDevice::SimulatedDevice(std::string id, Seconds seconds)
    : SimulatedDevice(std::move(id), [seconds = std::move(seconds)](const Launch& launch) {
          return seconds_of_step(seconds, launch);
      }) {}

SimulatedDevice::SimulatedDevice(std::string id, LaunchSeconds seconds, Link link)
    : seconds_(std::move(seconds)), link_(link) {
    info_.id = std::move(id);
    info_.name = "simulated";
    info_.kind = DeviceKind::discrete_gpu;
    info_.queues = queue_count;
}

std::unique_ptr<Allocation> SimulatedDevice::do_allocate(std::size_t bytes, Memory memory) {
    return std::make_unique<ZeroedMemory>(bytes, memory);
}

double SimulatedDevice::seconds_of(const Command& command) const {
    if (const auto* launch = std::get_if<Launch>(&command)) return seconds_(*launch);
    const auto* copy = std::get_if<Copy>(&command);
    const bool crosses = copy != nullptr && memory_of(copy->source) != memory_of(copy->target);
    return crosses ? double(copy->source.bytes) * link_.seconds_per_byte : 0;
}

std::unique_ptr<RecordingState> SimulatedDevice::do_record(std::span<const Command> commands, const Buffer*) {
    auto recording = std::make_unique<SimulatedRecording>();
    for (const Command& command : commands) {
        recording->seconds += seconds_of(command);
        if (std::holds_alternative<Timestamp>(command)) recording->timestamps.push_back(recording->seconds);
    }
    return recording;
}

void SimulatedDevice::do_submit(const RecordingState& recording, Submission submission,
                                std::span<const Submission> after) {
    Clock::time_point& free = free_[std::size_t(submission.queue)];
    Clock::time_point begin = std::max(Clock::now(), free);
    for (const Submission& each : after) begin = std::max(begin, ends_.at(each.ticket - 1));
    free = begin + duration(static_cast<const SimulatedRecording&>(recording).seconds);
    ends_.push_back(free);
}

void SimulatedDevice::do_wait(Submission submission) {
    const Clock::time_point end = ends_.at(submission.ticket - 1);
    if (Clock::source == this_threads_time) {
        virtual_now = std::max(virtual_now, end);
        return;
    }
    std::this_thread::sleep_until(end - late);
    while (Clock::now() < end) std::this_thread::yield();
}

std::vector<double> SimulatedDevice::do_timestamps(const RecordingState& recording) const {
    const auto& recorded = static_cast<const SimulatedRecording&>(recording);
    const Clock::time_point begin =
        ends_.at(recording.last_submission.ticket - 1) - duration(recorded.seconds);
    std::vector<double> seconds;
    for (const double each : recorded.timestamps)
        seconds.push_back(std::chrono::duration<double>(begin - made_).count() + each);
    return seconds;
}

} // namespace towers::test
