// Measures the phases of a step: sums for the table at the end of a run, and intervals for the trace.
#pragma once

#include "engine/trace/trace.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace towers {

/// Seconds of one tower's step, measured by its thread.
struct TowerTimes {
    double work = 0;    ///< without waiting for others
    double compute = 0; ///< part of `work`: kernels and their submission, in which software drivers compute
    double copies = 0;  ///< part of `work`: copies while no kernel ran
    double others = 0;  ///< waiting for other towers, within the step and after its own part

    TowerTimes& operator+=(const TowerTimes& more) {
        work += more.work;
        compute += more.compute;
        copies += more.copies;
        others += more.others;
        return *this;
    }
};

/// Seconds of the calling thread.
struct HostTimes {
    double averaging = 0; ///< adding up gradients and updating the state
    double waiting = 0;   ///< for towers
    double data = 0;      ///< waiting for images that are read while the towers compute
};

/// Times the phases of one thread's work.
class PhaseClock {
public:
    /// `trace`: may be null; gets each phase, on the thread's own track.
    PhaseClock(std::shared_ptr<Trace> trace, const std::string& process, const std::string& thread)
        : trace_(std::move(trace)) {
        if (trace_) track_ = trace_->add_track(process, thread);
    }

    /// Measures a phase during the result's lifetime and adds it to `sum`. Both `sum` and what `phase` refers
    /// to must outlive the result.
    [[nodiscard]] Interval time(double& sum, std::string_view phase) const {
        return {sum, trace_.get(), track_, phase};
    }
    /// Adds a past phase to the trace only.
    void add(const char* phase, Clock::time_point begin, Clock::time_point end) const {
        if (trace_ && begin < end) trace_->add(track_, phase, begin, end);
    }

private:
    std::shared_ptr<Trace> trace_;
    Trace::Track track_;
};

} // namespace towers
