// A timeline of a run: slices of time on tracks, for a viewer.
#pragma once

#include "backends/device.h"
#include "engine/clock.h"
#include "engine/trace/clocks.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace towers {

/// Keeps the last steps of a run. Any thread may call it at any time.
class Trace {
public:
    /// `steps`: how many to keep, at least 1.
    explicit Trace(std::uint64_t steps) : most_steps_(steps) {}

    /// One row of the timeline.
    struct Track {
        std::size_t index = 0;
    };
    /// Viewers draw rows in the order in which they were added, grouped by process.
    Track add_track(const std::string& process, const std::string& name);

    static constexpr std::size_t on_host_clock = SIZE_MAX;
    /// A device's clock. Slices without one are on the host's steady clock.
    struct ClockId {
        std::size_t index = on_host_clock;
    };
    ClockId add_clock(const std::string& process);

    /// Slices added from now on belong to this step. Slices from before the first step are not kept.
    void begin_step(std::uint64_t step);
    /// The current step, counted from 0; `none` before the first.
    std::uint64_t step() const;
    static constexpr std::uint64_t none = UINT64_MAX;

    /// Whether what devices begin from now on belongs to a test pass, and not to the step itself.
    void set_testing(bool testing);
    bool is_testing() const;

    struct Slice {
        Track track;
        std::string name;
        const char* kernel = nullptr; ///< null: the slice is not a kernel
        std::uint64_t step = none;
        ClockId clock{};
        double begin = 0, end = 0; ///< seconds on the clock
        bool of_test = false;      ///< a device's work for a test pass
    };
    void add(Slice slice);
    /// Adds a slice of the current step on the host's clock.
    void add(Track track, std::string name, Clock::time_point begin, Clock::time_point end);

    /// See ClockOffset.
    void begins(ClockId clock, std::uint64_t step, double submitted, double begun);
    void ends(ClockId clock, std::uint64_t step, double ended, double known);

    /// Keeps a note for the user, such as that a device has no clock; each text once.
    void note(const std::string& text);

    /// What devices did in the kept steps, without test passes, added up by name, in the order in which it
    /// began first.
    struct DeviceWork {
        std::string process, row;
        std::string name;
        const char* kernel; ///< null: a copy
        double seconds = 0;
    };
    std::vector<DeviceWork> device_work() const;
    /// The first and the last step that are kept; `none` twice if there are none.
    std::pair<std::uint64_t, std::uint64_t> steps() const;
    std::vector<std::string> notes() const;
    std::uint64_t most_steps() const { return most_steps_; }

    /// What it keeps, for add() in another process.
    std::string to_json() const;
    /// Adds what another process's trace keeps of the same steps. `clock`: the offset of this process's clock
    /// from that one's.
    void add(const std::string& json, const ClockOffset& clock);

    /// Writes JSON in Chrome's trace event format, which Perfetto reads; see write_output().
    void write(const std::filesystem::path& path) const;

private:
    struct Row {
        std::size_t process; ///< index into processes_
        std::string name;
    };
    struct DeviceClock {
        std::size_t process;
        ClockOffset offset;
    };
    std::size_t process_of(const std::string& name);
    std::uint64_t first_step() const;
    bool is_kept(std::uint64_t step) const;

    mutable std::mutex mutex_;
    const std::uint64_t most_steps_;
    std::uint64_t step_ = none;
    bool testing_ = false;
    std::vector<std::string> processes_;
    std::vector<Row> rows_;
    std::vector<DeviceClock> clocks_;
    std::deque<Slice> slices_;
    std::vector<std::string> notes_;
    std::set<std::string> kernels_;                           ///< named by other processes
    std::vector<std::pair<std::size_t, std::string>> labels_; ///< of other processes' clocks
};

/// Seconds on the host's steady clock.
inline double host_seconds(Clock::time_point moment) {
    return std::chrono::duration<double>(moment.time_since_epoch()).count();
}

/// The name of a tower's process in the trace.
std::string tower_process(std::size_t tower, const DeviceInfo& info);

/// While it lives, devices' work belongs to a test pass or a summary, not to a step.
class TestSpan {
public:
    explicit TestSpan(Trace* trace) : trace_(trace) { mark(true); }
    TestSpan(const TestSpan&) = delete;
    TestSpan& operator=(const TestSpan&) = delete;
    ~TestSpan() { mark(false); }

private:
    void mark(bool testing) const {
        if (trace_ != nullptr) trace_->set_testing(testing);
    }
    Trace* trace_; ///< may be null
};

/// Adds its lifetime to a sum of seconds and, if there is a trace, to the trace.
class Interval {
public:
    Interval(double& sum, Trace* trace, Trace::Track track, std::string_view name)
        : sum_(sum), trace_(trace), track_(track), name_(name),
          step_(trace != nullptr ? trace->step() : Trace::none) {}
    Interval(const Interval&) = delete;
    Interval& operator=(const Interval&) = delete;
    ~Interval() {
        const Clock::time_point end = Clock::now();
        sum_ += std::chrono::duration<double>(end - begin_).count();
        if (trace_ != nullptr)
            trace_->add({.track = track_,
                         .name = std::string(name_),
                         .step = step_,
                         .begin = host_seconds(begin_),
                         .end = host_seconds(end)});
    }

private:
    double& sum_;
    Trace* trace_; ///< may be null
    Trace::Track track_;
    std::string_view name_;
    std::uint64_t step_; ///< the step in which it began
    Clock::time_point begin_ = Clock::now();
};

} // namespace towers
