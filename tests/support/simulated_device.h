// A device that computes nothing, and takes as long as it is told.
#pragma once

#include "backends/device.h"
#include "engine/clock.h"
#include "engine/recipes/recipe.h"

#include <array>
#include <functional>
#include <vector>

namespace towers::test {

/// The speed of copies between device and staging memory; the two directions work at the same time.
struct Link {
    double seconds_per_byte = 0;
};

/// The times of the launches of a recipe's step with `share` examples: the launches of the forward and the
/// backward pass take `forward` and `backward` seconds in all, in proportion to their arithmetic.
std::function<double(const Launch&)> seconds_by_work(const Recipe& recipe, unsigned share, double forward,
                                                     double backward);

/// While it lives, each thread has a time of its own, which passes only while the thread waits for simulated
/// devices: what it measures is exact on the busiest machine. Begin and end it while no tower works.
class VirtualClock {
public:
    VirtualClock();
    VirtualClock(const VirtualClock&) = delete;
    VirtualClock& operator=(const VirtualClock&) = delete;
    ~VirtualClock();
};

/// Its staging memory is real and stays zero, so that all results are finite; its work is a pause. A
/// recording takes as long as the sum of its launches and copies; the device's queues work side by side.
class SimulatedDevice final : public Device {
public:
    using Seconds = std::function<double(unsigned examples)>;
    using LaunchSeconds = std::function<double(const Launch&)>;
    /// Makes a step of `examples` examples take `seconds(examples)`, all of it in the launch that makes the
    /// images.
    SimulatedDevice(std::string id, Seconds seconds);
    SimulatedDevice(std::string id, LaunchSeconds seconds, Link link = {});

    const DeviceInfo& info() const override { return info_; }

protected:
    std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) override;
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands,
                                              const Buffer* scratch) override;
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override;
    /// Without a VirtualClock, returns within some 20 us of the modelled time if a processor is free.
    void do_wait(Submission submission) override;
    void do_finish() noexcept override {}
    /// Seconds since the device was made.
    std::vector<double> do_timestamps(const RecordingState& recording) const override;

private:
    double seconds_of(const Command& command) const;

    DeviceInfo info_;
    LaunchSeconds seconds_;
    Link link_;
    Clock::time_point made_ = Clock::now();
    std::vector<Clock::time_point> ends_; ///< by submission
    std::array<Clock::time_point, queue_count> free_{};
};

} // namespace towers::test
