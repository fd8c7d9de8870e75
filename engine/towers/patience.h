// How long to wait for towers that may hang.
#pragma once

#include "engine/towers/tower.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace towers {

class Patience {
public:
    /// `timeout`: the seconds that a step may take beyond what it should take by those before it, or more if
    /// the whole step is then still less than ten times as long; may be infinite.
    Patience(double timeout, std::size_t towers) : timeout_(timeout), known_(towers) {}

    struct Limit {
        double expected = 0, more = 0; ///< seconds
        bool known = false;            ///< `expected` is by earlier steps
        double seconds() const { return expected + more; }
    };

    /// Of a step of these towers, even if they work one after another, as batch norms over the whole batch
    /// may make them. A tower's first step, in which a driver may compile, gets ten times the timeout, and a
    /// rate that every device exceeds.
    Limit limit(std::span<const std::unique_ptr<Tower>> towers, std::span<const std::size_t> active) const;
    /// Of copies, of which no time is known.
    Limit limit_of_copies() const { return {.more = first_timeout()}; }

    /// The tower has new recordings: its next step tells little of those that follow.
    void renew(std::size_t tower) { known_[tower].warm = false; }
    /// The tower has taken a step.
    void observe(std::size_t tower, unsigned share, double seconds);

private:
    double first_timeout() const { return 10 * timeout_; }

    /// The longest step of a tower with its present share, or with the last that it had for two steps.
    struct Known {
        double seconds = 0; ///< 0: not known
        unsigned share = 0;
        bool warm = false; ///< it has taken a step with its recordings
    };
    double timeout_;
    std::vector<Known> known_; ///< of each tower
};

/// Why a tower counts as failed: `vulkan:0: no answer for 60 s more than a step should take`.
std::string no_answer(const DeviceInfo& device, const Patience::Limit& limit);

} // namespace towers
