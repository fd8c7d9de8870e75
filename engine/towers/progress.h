// How far a tower has come in a step, for others to wait for.
#pragma once

#include "engine/clock.h"
#include "engine/towers/phases.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace towers {

/// Counts what one thread has done in a step, so that others can wait for it. Any thread may make it fail,
/// which wakes all who wait, now and later, until a restart.
class Milestones {
public:
    enum class Outcome { passed, failed, late };

    /// Only while nobody waits.
    void restart() {
        const std::lock_guard lock(mutex_);
        count_ = 0;
        failed_ = false;
    }
    /// `count`: no less than before. False: it has failed in the meantime, and stays so.
    bool advance(std::size_t count) {
        const std::lock_guard lock(mutex_);
        if (failed_) return false;
        count_ = count;
        changed_.notify_all();
        return true;
    }
    void fail() {
        const std::lock_guard lock(mutex_);
        failed_ = true;
        changed_.notify_all();
    }

    /// Those passed, perhaps before a failure.
    std::size_t count() const {
        const std::lock_guard lock(mutex_);
        return count_;
    }
    bool has_failed() const {
        const std::lock_guard lock(mutex_);
        return failed_;
    }
    /// Waits until `count` have been passed.
    Outcome wait_for(std::size_t count) const {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return outcome(count) != Outcome::late; });
        return outcome(count);
    }
    /// At most for so long.
    Outcome wait_for(std::size_t count, std::chrono::duration<double> most) const {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, most, [&] { return outcome(count) != Outcome::late; });
        return outcome(count);
    }

private:
    Outcome outcome(std::size_t count) const {
        if (failed_) return Outcome::failed;
        return count_ >= count ? Outcome::passed : Outcome::late;
    }

    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::size_t count_ = 0;
    bool failed_ = false;
};

/// What a tower's thread has done in a step.
struct TowerProgress {
    Milestones buckets;   ///< of gradients, delivered
    Milestones exchanges; ///< whose lists have been handed over
    Milestones end;       ///< 1: the tower has done its part of the step
    Milestones renewal;   ///< 1: and has submitted the upload of the new parameters, unless the step failed

    /// For whoever has waited for `end`.
    TowerTimes times;
    Clock::time_point ended; ///< when `end` was passed

    /// Before a step; does nothing for an abandoned tower.
    void restart() {
        if (abandoned_) return;
        for (Milestones* each : {&buckets, &exchanges, &end, &renewal}) each->restart();
    }
    void fail() {
        for (Milestones* each : {&buckets, &exchanges, &end, &renewal}) each->fail();
    }

    /// For the tower's thread: does what touches memory that is not the tower's own. False, without doing it:
    /// the tower has failed or was abandoned.
    template<class Work>
    bool among_others(Work&& work) {
        const std::lock_guard lock(among_others_);
        if (end.has_failed()) return false;
        work();
        return true;
    }
    /// For the thread that waits for a tower that hangs: makes it fail for good, and waits until the tower's
    /// thread touches its own memory only. Does not wait for its device.
    void abandon() {
        abandoned_ = true;
        fail();
        const std::lock_guard lock(among_others_);
    }
    bool is_abandoned() const { return abandoned_; }

private:
    bool abandoned_ = false;
    std::mutex among_others_;
};

} // namespace towers
