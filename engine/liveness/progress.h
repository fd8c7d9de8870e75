// A tower's progress in a step, for other threads to wait for.
#pragma once

#include "engine/clock.h"
#include "engine/trace/phases.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace towers {

/// Counts what one thread has done in a step, so that others can wait for it. Any thread may make it fail,
/// which wakes all waiting threads, now and later, until a restart.
class Milestones {
public:
    enum class Outcome { passed, failed, late };

    /// Call it only while no thread waits.
    void restart() {
        const std::lock_guard lock(mutex_);
        count_ = 0;
        failed_ = false;
    }
    /// `count` must not decrease. Returns false if it has failed; it then stays failed.
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

    /// The milestones passed, also before a failure.
    std::size_t count() const {
        const std::lock_guard lock(mutex_);
        return count_;
    }
    bool has_failed() const {
        const std::lock_guard lock(mutex_);
        return failed_;
    }
    /// Waits until the count is at least `count`.
    Outcome wait_for(std::size_t count) const {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return outcome(count) != Outcome::late; });
        return outcome(count);
    }
    /// The same, but waits at most this long.
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

/// The progress of a tower's thread in a step.
struct TowerProgress {
    Milestones buckets;   ///< how many buckets of gradients are delivered
    Milestones exchanges; ///< how many the tower has handed its lists over for
    Milestones end;       ///< 1: the tower has done its part of the step
    Milestones renewal;   ///< 1: it has also submitted all uploads of parameters, unless the step failed

    /// The tower waits for data to be read in a test pass, which is no device's fault.
    std::atomic<bool> reads = false;

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
    bool among_others(Work&& work) {
        const std::lock_guard lock(among_others_);
        if (end.has_failed()) return false;
        work();
        return true;
    }
    /// For the thread that waits for a hung tower: makes it fail permanently, and waits until the tower's
    /// thread touches only its own memory. Does not wait for its device.
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
