#include "engine/trace/traced_device.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace towers {
namespace {

constexpr const char* queue_names[queue_count] = {"compute", "upload", "download"};

/// The work between two timestamps of a recording.
struct Work {
    std::string name;
    const char* kernel; ///< null: a copy
};

Work work_of(const Launch& launch) {
    const char* const kernel = kernel_info(launch.kernel).name;
    return {launch.label.empty() ? kernel : std::string(launch.label), kernel};
}

Work work_of(const Copy& copy) { return {copy.label.empty() ? "copy" : std::string(copy.label), nullptr}; }

} // namespace

struct TracedDevice::TracedRecording : WrappedRecording {
    TracedDevice& device;
    std::vector<Work> works;
    /// The last submission, its step and its times.
    mutable Submission submission{};
    mutable std::uint64_t step = Trace::none;
    mutable bool of_test = false;
    mutable double submitted = 0, known = 0; ///< host seconds; `known` is infinite until the end is known

    TracedRecording(Recording theirs, TracedDevice& of, std::vector<Work> what)
        : WrappedRecording(std::move(theirs)), device(of), works(std::move(what)) {}
    ~TracedRecording() override {
        try {
            device.read(*this);
        } catch (const std::exception&) { // a failed device has no timestamps
        }
    }
};

TracedDevice::TracedDevice(std::unique_ptr<Device> device, std::shared_ptr<Trace> trace, std::string process)
    : WrappedDevice(std::move(device)), trace_(std::move(trace)), process_(std::move(process)),
      clock_(trace_->add_clock(process_)), tracks_{trace_->add_track(process_, queue_names[0]),
                                                   trace_->add_track(process_, queue_names[1]),
                                                   trace_->add_track(process_, queue_names[2])} {}

std::unique_ptr<RecordingState> TracedDevice::do_record(std::span<const Command> commands,
                                                        const Buffer* scratch) {
    // A timestamp separates the commands before and after it, so barriers are not needed.
    std::vector<Command> timed{Timestamp{}};
    std::vector<Work> works;
    for (const Command& command : commands) {
        if (const auto* launch = std::get_if<Launch>(&command))
            works.push_back(work_of(*launch));
        else if (const auto* copy = std::get_if<Copy>(&command))
            works.push_back(work_of(*copy));
        else
            continue;
        timed.push_back(command);
        timed.emplace_back(Timestamp{});
    }
    return std::make_unique<TracedRecording>(record_theirs(timed, scratch), *this, std::move(works));
}

void TracedDevice::do_submit(const RecordingState& recording, Submission submission,
                             std::span<const Submission> after) {
    const auto& traced = static_cast<const TracedRecording&>(recording);
    read(traced);
    const double now = host_seconds(Clock::now());
    WrappedDevice::do_submit(recording, submission, after);
    traced.submission = submission;
    traced.step = trace_->step();
    traced.of_test = trace_->is_testing();
    traced.submitted = now;
    traced.known = std::numeric_limits<double>::infinity();
    unread_.push_back(&traced);
}

void TracedDevice::do_wait(Submission submission) {
    WrappedDevice::do_wait(submission);
    const double now = host_seconds(Clock::now());
    for (const TracedRecording* each : unread_)
        if (each->submission.queue == submission.queue && each->submission.ticket <= submission.ticket)
            each->known = std::min(each->known, now);
}

/// Adds a recording's last submission to the trace, once.
void TracedDevice::read(const TracedRecording& recording) {
    if (std::erase(unread_, &recording) == 0) return;
    WrappedDevice::do_wait(recording.submission);
    const double now = host_seconds(Clock::now());
    const std::vector<double> moments = WrappedDevice::do_timestamps(recording);
    if (moments.empty())
        return trace_->note(fmt::format("{}: the device has no clock for its {} queue, whose row stays empty",
                                        process_, queue_names[std::size_t(recording.submission.queue)]));
    trace_->begins(clock_, recording.step, recording.submitted, moments.front());
    trace_->ends(clock_, recording.step, moments.back(), std::min(now, recording.known));
    for (std::size_t i = 0; i < recording.works.size(); ++i)
        trace_->add({.track = tracks_[std::size_t(recording.submission.queue)],
                     .name = recording.works[i].name,
                     .kernel = recording.works[i].kernel,
                     .step = recording.step,
                     .clock = clock_,
                     .begin = moments[i],
                     .end = moments[i + 1],
                     .of_test = recording.of_test});
}

} // namespace towers
