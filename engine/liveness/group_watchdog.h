// Notices towers of a group that do not answer while the calling thread waits for them.
#pragma once

#include "engine/liveness/patience.h"
#include "engine/liveness/progress.h"

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace towers {

class GroupWatchdog {
public:
    explicit GroupWatchdog(Patience patience) : patience_(std::move(patience)) {}

    /// Begins a step of these towers with this limit.
    void begin(const ExpectedTime& expected, std::span<TowerProgress* const> towers);

    /// Waits until a tower of the step has passed `count` milestones; returns false if it has failed. If the
    /// step takes too long, abandons the towers that hang, which then count as failed. Time in which a tower
    /// is excused does not count.
    bool wait_for(const TowerProgress& tower, Milestones TowerProgress::*what, std::size_t count);

    /// The limit of the last step.
    const TimeLimit& limit() const { return limit_; }
    /// Why a tower that hangs counts as failed.
    std::string no_answer(const DeviceInfo& device) const {
        return towers::no_answer(device, limit_, patience_.stop_requested());
    }

private:
    std::vector<TowerProgress*> hanging(Milestones TowerProgress::*awaited) const;

    Patience patience_;
    TimeLimit limit_;
    double left_ = 0; ///< seconds until the step takes too long
    bool waiters_woken_ = false;
    bool stop_requested_ = false;
    std::vector<TowerProgress*> towers_; ///< of the step
};

} // namespace towers
