// Notices towers of a group that do not answer while the calling thread waits for them.
#pragma once

#include "engine/towers/patience.h"
#include "engine/towers/progress.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace towers {

class GroupWatchdog {
public:
    explicit GroupWatchdog(Patience patience) : patience_(std::move(patience)) {}

    /// Begins a step of these towers with this limit.
    void begin(const ExpectedTime& expected, std::vector<TowerProgress*> towers);

    /// Waits until a tower of the step has passed `count` milestones; returns false if it has failed. If the
    /// step takes too long, abandons the towers that hang, which then count as failed. Time in which a tower
    /// waits for data does not count.
    bool wait_for(const TowerProgress& tower, Milestones TowerProgress::*what, std::size_t count);

    /// The limit of the last step.
    const TimeLimit& limit() const { return limit_; }

private:
    std::vector<TowerProgress*> hanging(Milestones TowerProgress::*awaited) const;

    Patience patience_;
    TimeLimit limit_;
    double left_ = 0; ///< seconds until the step takes too long
    bool waiters_woken_ = false;
    std::vector<TowerProgress*> towers_; ///< of the step
};

/// Whether a thread hangs in a driver, so that the program must end without the usual clean-up.
bool any_tower_hangs();

} // namespace towers
