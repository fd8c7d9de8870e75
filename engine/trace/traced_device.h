// A device that adds its work to a trace.
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

/// Times each launch and copy on the device's clock. So commands of a recording that could run side by side
/// run one after another, and a recording is submitted again only after its last submission has ended. The
/// trace is complete when the device is closed.
class TracedDevice final : public WrappedDevice {
public:
    /// Shares the trace, because a device that hangs outlives everything else.
    /// `process`: its tower's name there.
    TracedDevice(std::unique_ptr<Device> device, std::shared_ptr<Trace> trace, std::string process);

protected:
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands,
                                              const Buffer* scratch) override;
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override;
    void do_wait(Submission submission) override;

private:
    struct TracedRecording;
    void read(const TracedRecording& recording);

    std::shared_ptr<Trace> trace_;
    std::string process_;
    Trace::ClockId clock_;
    std::array<Trace::Track, queue_count> tracks_; ///< by queue
    std::vector<const TracedRecording*> unread_;   ///< submitted, but not yet in the trace
};

} // namespace towers
