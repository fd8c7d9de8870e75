// How long to wait for devices that may hang.
#pragma once

#include "backends/device.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <utility>

namespace towers {

/// The expected seconds of a step. With several towers their seconds add up, since batch norms over the whole
/// batch may make them work one after another.
struct ExpectedTime {
    double seconds = 0;
    bool known = true; ///< from earlier steps; false: from a rate that every device exceeds

    ExpectedTime& operator+=(const ExpectedTime& more) {
        seconds += more.seconds;
        known = known && more.known;
        return *this;
    }
};

/// The time within which devices must answer.
struct TimeLimit {
    ExpectedTime expected;
    double more = 0; ///< in addition
    /// Work that was done before is lost if this does not end.
    bool saves = false;
    double seconds() const { return expected.seconds + more; }
};

/// Learns how long one tower's steps take.
class StepTime {
public:
    /// The expected time of a step with this share and this many floating-point operations.
    ExpectedTime expect(unsigned share, double flops, const DeviceInfo& device) const;
    /// Of a test pass over so many examples, which takes no longer than steps with as many.
    ExpectedTime expect_test(unsigned examples, unsigned share, double flops,
                             const DeviceInfo& device) const {
        return expect(examples, flops * examples / share, device);
    }
    /// Reports a step of the tower.
    void observe(unsigned share, double seconds);
    /// Reports that the tower has new recordings: in its next step a driver may compile, so its time is not
    /// typical.
    void renew() { warm_ = false; }

private:
    /// The longest step with the current share, or with the last share that the tower had for at least two
    /// steps.
    double seconds_ = 0; ///< 0: unknown
    unsigned share_ = 0;
    bool warm_ = false; ///< the tower has taken a step with its current recordings
};

/// What a watchdog does before it looks again. A test may have a time of its own.
struct Pause {
    /// Short, so that time in which this program is stopped hardly counts.
    std::chrono::duration<double> length{0.1};
    /// The seconds that count as passed after a pause in which so many towers were late.
    std::function<double(std::size_t late)> counts = [](std::size_t) { return 0.1; };
};

class Patience {
public:
    /// `timeout`: how many seconds longer than expected a step may take. If ten times the expected time is
    /// more, a step may take that; without earlier steps, ten times the timeout.
    /// `stop`: whether the user wants to end the program; may be null.
    explicit Patience(double timeout = std::numeric_limits<double>::infinity(), Pause pause = {},
                      const std::atomic<bool>* stop = nullptr)
        : timeout_(timeout), pause_(std::move(pause)), stop_(stop) {}

    TimeLimit limit(const ExpectedTime& expected) const;
    /// The limit for copies, whose times are unknown.
    TimeLimit limit_of_copies() const {
        TimeLimit limit = this->limit({0, false});
        limit.saves = true;
        return limit;
    }
    const Pause& pause() const { return pause_; }
    bool stop_requested() const { return stop_ != nullptr && *stop_; }
    /// The seconds that work may still take after the user wants to end the program: few if no more is lost
    /// than this step.
    static double at_the_end(const TimeLimit& limit);

private:
    double timeout_;
    Pause pause_;
    const std::atomic<bool>* stop_;
};

/// Why a device counts as failed: `vulkan:0: no answer for 60 s more than a step should take`; with the
/// driver's function if that is known.
std::string no_answer(const DeviceInfo& device, const TimeLimit& limit, bool stop_requested = false);

} // namespace towers
