// A device that computes nothing and takes as long as it is told.
#pragma once

#include "backends/device.h"
#include "engine/clock.h"

#include <functional>

namespace towers::test {

/// Its staging memory is real and stays zero, so that all results are finite; its work is a pause. One step
/// of `examples` examples, which the launch that makes their images tells, takes `seconds(examples)`;
/// recordings without that launch take none.
class SimulatedDevice final : public Device {
public:
    using Seconds = std::function<double(unsigned examples)>;
    SimulatedDevice(std::string id, Seconds seconds);

    const DeviceInfo& info() const override { return info_; }

protected:
    std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) override;
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands) override;
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override;
    void do_wait(Submission submission) override;
    void do_finish() noexcept override {}
    std::vector<double> do_timestamps(const RecordingState&) const override { return {}; }

private:
    DeviceInfo info_;
    Seconds seconds_;
    std::vector<Clock::time_point> ends_; ///< of each submission
};

} // namespace towers::test
