// How far a tower has come in a step, for others to wait for.
#pragma once

#include <atomic>
#include <cstddef>

namespace towers {

/// Only grows within a step. One thread advances it, any may wait.
class Milestones {
public:
    /// Only while nobody waits.
    void restart() { count_.store(0); }
    void advance(std::size_t count) { set(count); }
    /// Wakes all who wait, now and later, until a restart.
    void fail() { set(failed); }
    std::size_t count() const { return count_.load(); }
    /// Waits until `count` have been passed. False: the tower has failed.
    bool wait_for(std::size_t count) const {
        std::size_t now;
        while ((now = count_.load()) < count) count_.wait(now);
        return now != failed;
    }

private:
    static constexpr std::size_t failed = SIZE_MAX;
    void set(std::size_t count) {
        count_.store(count);
        count_.notify_all();
    }
    std::atomic<std::size_t> count_ = 0;
};

struct TowerProgress {
    Milestones buckets;   ///< delivered
    Milestones exchanges; ///< whose lists have been handed over

    void restart() {
        buckets.restart();
        exchanges.restart();
    }
    void fail() {
        buckets.fail();
        exchanges.fail();
    }
};

} // namespace towers
