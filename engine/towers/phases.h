// Where the time of a step goes: sums for the table at the end of a run, and intervals for the trace.
#pragma once

#include "engine/trace/trace.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace towers {

/// The seconds of one tower's step, as the thread that serves it sees them.
struct TowerTimes {
    double work = 0;    ///< without waiting for others
    double compute = 0; ///< of it, kernels and their submission, which computes too with software drivers
    double copies = 0;  ///< of it, copies that no kernel hid
    double others = 0;  ///< waiting for other towers, within the step and after its own part

    TowerTimes& operator+=(const TowerTimes& more) {
        work += more.work;
        compute += more.compute;
        copies += more.copies;
        others += more.others;
        return *this;
    }
};

/// The seconds of the thread that calls for the steps.
struct HostTimes {
    double averaging = 0; ///< adding up gradients and updating the state
    double waiting = 0;   ///< for towers
};

/// Times the phases of one thread's work.
class PhaseClock {
public:
    /// `trace`: null, or gets each phase, on a track of the thread's own.
    PhaseClock(std::shared_ptr<Trace> trace, const std::string& process, const std::string& thread)
        : trace_(std::move(trace)) {
        if (trace_) track_ = trace_->add_track(process, thread);
    }

    /// A phase that lasts as long as the result lives, and adds to `sum` at its end. Both `sum` and what
    /// `phase` refers to must outlive it.
    [[nodiscard]] Interval time(double& sum, std::string_view phase) const {
        return {sum, trace_.get(), track_, phase};
    }
    /// A phase that is over, for the trace alone.
    void add(const char* phase, Clock::time_point begin, Clock::time_point end) const {
        if (trace_ && begin < end) trace_->add(track_, phase, begin, end);
    }

private:
    std::shared_ptr<Trace> trace_;
    Trace::Track track_;
};

} // namespace towers
