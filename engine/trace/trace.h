// What a run does when: slices of time on tracks, for a timeline viewer.
#pragma once

#include "backends/device.h"
#include "engine/clock.h"
#include "engine/trace/clocks.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
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

    /// One row of the picture.
    struct Track {
        std::size_t index = 0;
    };
    /// Rows are drawn in the order in which they are added, those of one process together.
    Track add_track(const std::string& process, const std::string& name);

    static constexpr std::size_t on_host_clock = SIZE_MAX;
    /// The clock of a device; a slice that names none is on the host's steady clock.
    struct ClockId {
        std::size_t index = on_host_clock;
    };
    ClockId add_clock(const std::string& process);

    /// What comes from now on belongs to this step; what came before the first one is not kept.
    void begin_step(std::uint64_t step);
    /// Of the present step; steps are counted from 0, and what is no step's has step none.
    std::uint64_t step() const;
    static constexpr std::uint64_t none = UINT64_MAX;

    struct Slice {
        Track track;
        std::string name;
        const char* kernel = nullptr; ///< null: it is no kernel's
        std::uint64_t step = none;
        ClockId clock{};
        double begin = 0, end = 0; ///< seconds on the clock
    };
    void add(Slice slice);
    /// On the host's clock, in the present step.
    void add(Track track, std::string name, Clock::time_point begin, Clock::time_point end);

    /// See ClockOffset.
    void begins(ClockId clock, std::uint64_t step, double submitted, double begun);
    void ends(ClockId clock, std::uint64_t step, double ended, double known);

    /// For the user, such as that a device has no clock; once each.
    void note(const std::string& text);

    /// The first and the last step that are kept; both none if there is nothing.
    std::pair<std::uint64_t, std::uint64_t> steps() const;
    std::vector<std::string> notes() const;
    /// As JSON in Chrome's trace event format, which Perfetto reads; see write_output().
    void write(const std::filesystem::path& path) const;

private:
    struct Row {
        std::size_t process; ///< index of its name
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
    std::uint64_t most_steps_, step_ = none;
    std::vector<std::string> processes_;
    std::vector<Row> rows_;
    std::vector<DeviceClock> clocks_;
    std::deque<Slice> slices_;
    std::vector<std::string> notes_;
};

/// Seconds on the host's steady clock.
inline double host_seconds(Clock::time_point moment) {
    return std::chrono::duration<double>(moment.time_since_epoch()).count();
}

/// The name of a tower's process.
std::string tower_process(std::size_t tower, const DeviceInfo& info);

/// Adds its lifetime to a sum of seconds and, where there is a trace, to the trace.
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
    std::uint64_t step_; ///< in which it began
    Clock::time_point begin_ = Clock::now();
};

} // namespace towers
