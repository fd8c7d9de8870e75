// How long to wait for devices that may hang.
#pragma once

#include "backends/device.h"

#include <string>

namespace towers {

/// The seconds that a step should take. Those of several towers add up, since batch norms over the whole
/// batch may make the towers work one after another.
struct ExpectedTime {
    double seconds = 0;
    bool known = true; ///< by earlier steps; else by a rate of work that every device exceeds

    ExpectedTime& operator+=(const ExpectedTime& more) {
        seconds += more.seconds;
        known = known && more.known;
        return *this;
    }
};

/// The seconds within which devices must answer.
struct TimeLimit {
    ExpectedTime expected;
    double more = 0; ///< beyond what is expected
    double seconds() const { return expected.seconds + more; }
};

/// Learns how long one tower's steps take.
class StepTime {
public:
    /// Of a step with this share, which takes so many floating-point operations.
    ExpectedTime expect(unsigned share, double flops, const DeviceInfo& device) const;
    /// The tower has taken a step.
    void observe(unsigned share, double seconds);
    /// The tower has new recordings. A driver may compile in its next step, whose time says little about
    /// those that follow.
    void renew() { warm_ = false; }

private:
    /// The longest step with the present share, or with the last one that the tower had for two steps.
    double seconds_ = 0; ///< 0: not known
    unsigned share_ = 0;
    bool warm_ = false; ///< the tower has taken a step with its recordings
};

class Patience {
public:
    /// `timeout`: the seconds that a step may take beyond what is expected; may be infinite. A step may take
    /// more if it is then still less than ten times as long as expected, and ten times the timeout if nothing
    /// is known of earlier steps.
    explicit Patience(double timeout) : timeout_(timeout) {}

    TimeLimit limit(const ExpectedTime& expected) const;
    /// Of copies, of which no time is known.
    TimeLimit limit_of_copies() const { return limit({0, false}); }

private:
    double timeout_;
};

/// Why a device counts as failed: `vulkan:0: no answer for 60 s more than a step should take`.
std::string no_answer(const DeviceInfo& device, const TimeLimit& limit);

} // namespace towers
