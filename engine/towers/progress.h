// How far a tower has come in a step, for others to wait for.
#pragma once

#include "engine/clock.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace towers {

/// Only grows within a step. One thread advances it, any may wait or make it fail.
class Milestones {
public:
    /// Only while nobody waits.
    void restart() { set(0); }
    /// False: failed in the meantime, and stays so.
    bool advance(std::size_t count) {
        const std::lock_guard lock(mutex_);
        if (count_ == failed) return false;
        count_ = count;
        changed_.notify_all();
        return true;
    }
    /// Wakes all who wait, now and later, until a restart.
    void fail() { set(failed); }
    std::size_t count() const {
        const std::lock_guard lock(mutex_);
        return count_;
    }

    enum class Outcome { passed, failed, late };
    /// Waits until `count` have been passed.
    Outcome wait_for(std::size_t count) const {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return count_ >= count; });
        return count_ == failed ? Outcome::failed : Outcome::passed;
    }
    /// At most for so long.
    Outcome wait_for(std::size_t count, std::chrono::duration<double> most) const {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, most, [&] { return count_ >= count; })) return Outcome::late;
        return count_ == failed ? Outcome::failed : Outcome::passed;
    }
    bool has_failed() const { return count() == failed; }

private:
    static constexpr std::size_t failed = SIZE_MAX;
    void set(std::size_t count) {
        const std::lock_guard lock(mutex_);
        count_ = count;
        changed_.notify_all();
    }
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::size_t count_ = 0;
};

/// The seconds of one tower's step, as the thread that serves it sees them.
struct TowerTimes {
    double work = 0;    ///< without waiting for others
    double compute = 0; ///< of it, kernels and their submission, which computes too with software drivers
    double copies = 0;  ///< of it, copies that no kernel hid
    double others = 0;  ///< waiting for other towers, within the step and behind its own part

    TowerTimes& operator+=(const TowerTimes& more) {
        work += more.work;
        compute += more.compute;
        copies += more.copies;
        others += more.others;
        return *this;
    }
};

struct TowerProgress {
    Milestones buckets;   ///< delivered
    Milestones exchanges; ///< whose lists have been handed over
    Milestones end;       ///< 1: the tower has done its part of the step
    Milestones renewal;   ///< 1: and has sent for the new parameters, as far as there are any

    /// Once the tower has done its part; for whoever has waited for that.
    TowerTimes times;
    Clock::time_point ended; ///< when

    void restart() {
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
    /// Makes the tower fail, and waits until it touches its own memory only: not for its device.
    void abandon() {
        fail();
        const std::lock_guard lock(among_others_);
    }

private:
    std::mutex among_others_;
};

} // namespace towers
