// A device whose work goes into a trace.
#pragma once

#include "backends/wrapped_device.h"
#include "engine/trace/trace.h"

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// Takes the time of each launch and copy on the device's clock. So it runs one after another what could run
/// side by side in one recording, and waits for a recording's last submission before it submits it again.
/// What it has done is in the trace once the device is closed.
class TracedDevice final : public WrappedDevice {
public:
    /// Shares the trace, because a device that hangs is kept when all else has ended.
    TracedDevice(std::unique_ptr<Device> device, std::shared_ptr<Trace> trace, std::size_t tower);

protected:
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands) override;
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override;
    void do_wait(Submission submission) override;

private:
    struct TracedRecording;
    void read(const TracedRecording& recording);

    std::shared_ptr<Trace> trace_;
    std::string process_;
    Trace::ClockId clock_;
    std::array<Trace::Track, queue_count> tracks_; ///< of each queue
    std::vector<const TracedRecording*> unread_;   ///< submitted, and not yet in the trace
};

} // namespace towers
