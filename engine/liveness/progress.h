// A tower's progress in a step, for other threads to wait for.
#pragma once

#include "backends/milestones.h"
#include "engine/clock.h"
#include "engine/trace/phases.h"

#include <atomic>
#include <mutex>

namespace towers {

/// The progress of a tower's thread in a step.
struct TowerProgress {
    /// `spin`: see Milestones.
    explicit TowerProgress(Milestones::Spin spin = Milestones::Spin::zero())
        : buckets(spin), exchanges(spin), end(spin), renewal(spin) {}

    Milestones buckets;   ///< how many buckets of gradients are delivered
    Milestones exchanges; ///< how many the tower has handed its lists over for
    Milestones end;       ///< 1: the tower has done its part of the step
    Milestones renewal;   ///< 1: it has also submitted all uploads of parameters, unless the step failed

    /// The tower waits for what is no device's fault: data to be read in a test pass, or other ranks.
    std::atomic<bool> is_excused = false;

    /// Valid for a thread that has waited for `end`.
    TowerTimes times;
    Clock::time_point ended; ///< when `end` was passed

    /// Call it before a step; does nothing for an abandoned tower.
    void restart() {
        if (abandoned_) return;
        for (Milestones* each : {&buckets, &exchanges, &end, &renewal}) each->restart();
    }
    void fail() {
        for (Milestones* each : {&buckets, &exchanges, &end, &renewal}) each->fail();
    }

    /// For the tower's thread: does work that touches memory of others. Returns false, without doing it, if
    /// the tower has failed or was abandoned.
    template<class Work>
    bool unless_abandoned(Work&& work) {
        const std::lock_guard lock(abandoning_);
        if (end.has_failed()) return false;
        work();
        return true;
    }
    /// For the thread that waits for a hung tower: makes it fail permanently, and waits until the tower's
    /// thread touches only its own memory. Does not wait for its device.
    void abandon() {
        abandoned_ = true;
        fail();
        const std::lock_guard lock(abandoning_);
    }
    bool is_abandoned() const { return abandoned_; }

private:
    bool abandoned_ = false;
    std::mutex abandoning_;
};

} // namespace towers
