#include "tests/support/simulated_device.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace towers::test {
namespace {

/// Untouched pages of zeros cost nothing, so that memory of the device's side may be as real as the host's.
struct ZeroedMemory : Allocation {
    std::unique_ptr<std::byte, void (*)(void*)> memory{nullptr, std::free};
    explicit ZeroedMemory(std::size_t size)
        : memory(static_cast<std::byte*>(std::calloc(size + 256, 1)), std::free) {
        address = (reinterpret_cast<std::uint64_t>(memory.get()) + 255) / 256 * 256;
        bytes = size;
        host = reinterpret_cast<std::byte*>(address);
    }
};

struct Pause : RecordingState {
    unsigned examples = 0;
};

} // namespace

SimulatedDevice::SimulatedDevice(std::string id, Seconds seconds) : seconds_(std::move(seconds)) {
    info_.id = std::move(id);
    info_.name = "simulated";
}

std::unique_ptr<Allocation> SimulatedDevice::do_allocate(std::size_t bytes, Memory) {
    return std::make_unique<ZeroedMemory>(bytes);
}

std::unique_ptr<RecordingState> SimulatedDevice::do_record(std::span<const Command> commands) {
    auto pause = std::make_unique<Pause>();
    for (const Command& command : commands)
        if (const auto* launch = std::get_if<Launch>(&command);
            launch && launch->kernel == Kernel::distort_images)
            pause->examples = launch->parameters.as<DistortImagesParams>().count;
    return pause;
}

void SimulatedDevice::do_submit(const RecordingState& recording, Submission, std::span<const Submission>) {
    const unsigned examples = static_cast<const Pause&>(recording).examples;
    const Clock::time_point begin =
        std::max(Clock::now(), ends_.empty() ? Clock::time_point() : ends_.back());
    const std::chrono::duration<double> pause(examples == 0 ? 0 : seconds_(examples));
    ends_.push_back(begin + std::chrono::duration_cast<Clock::duration>(pause));
}

void SimulatedDevice::do_wait(Submission submission) {
    std::this_thread::sleep_until(ends_.at(submission.ticket - 1));
}

} // namespace towers::test
