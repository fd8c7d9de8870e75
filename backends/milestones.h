// A count that threads advance and others wait for.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace towers {

/// Counts what has been done, so that others can wait for it. Any thread may make it fail, which wakes all
/// waiting threads, now and later, until a restart. Costs no lock where nobody sleeps.
class Milestones {
public:
    enum class Outcome { passed, failed, late };
    using Spin = std::chrono::microseconds;

    /// `spin`: how long those who wait look again and again before they sleep. Wakening a thread takes as
    /// long as some of a step's work, but a thread that spins takes a processor from those that work.
    explicit Milestones(Spin spin = Spin::zero()) : spin_(spin) {}

    /// Call it only while no thread waits.
    void restart() { word_.store(0); }
    /// Raises the count to at least `count`. Returns false if it has failed; it then stays failed.
    bool advance(std::size_t count) {
        std::uint64_t word = word_.load();
        while (word < count && !word_.compare_exchange_weak(word, count)) {
        }
        if (word >= failure) return false;
        if (word < count) wake();
        return true;
    }
    void fail() {
        word_.fetch_or(failure);
        wake();
    }

    /// The milestones passed, also before a failure.
    std::size_t count() const { return word_.load() & ~failure; }
    bool has_failed() const { return word_.load() >= failure; }
    /// Waits until the count is at least `count`.
    Outcome wait_for(std::size_t count) const {
        const Outcome outcome = spin(count);
        if (outcome != Outcome::late) return outcome;
        std::unique_lock lock(mutex_);
        const Sleeper sleeper(*this);
        changed_.wait(lock, [&] { return outcome_of(count) != Outcome::late; });
        return outcome_of(count);
    }
    /// The same, but waits at most this long.
    Outcome wait_for(std::size_t count, std::chrono::duration<double> most) const {
        const Outcome outcome = spin(count);
        if (outcome != Outcome::late) return outcome;
        std::unique_lock lock(mutex_);
        const Sleeper sleeper(*this);
        changed_.wait_for(lock, most, [&] { return outcome_of(count) != Outcome::late; });
        return outcome_of(count);
    }

private:
    static constexpr std::uint64_t failure = std::uint64_t(1) << 63;

    /// Counts a thread that sleeps or is about to: it looks at the word after this, and who changes the word
    /// looks at the sleepers after that, so one of them sees the other.
    struct Sleeper {
        explicit Sleeper(const Milestones& its) : milestones(its) { ++milestones.sleepers_; }
        Sleeper(const Sleeper&) = delete;
        Sleeper& operator=(const Sleeper&) = delete;
        ~Sleeper() { --milestones.sleepers_; }
        const Milestones& milestones;
    };

    Outcome outcome_of(std::size_t count) const {
        const std::uint64_t word = word_.load();
        if (word >= failure) return Outcome::failed;
        return word >= count ? Outcome::passed : Outcome::late;
    }
    Outcome spin(std::size_t count) const {
        Outcome outcome = outcome_of(count);
        if (outcome != Outcome::late || spin_ == Spin::zero()) return outcome;
        const auto end = std::chrono::steady_clock::now() + spin_;
        while (outcome == Outcome::late && std::chrono::steady_clock::now() < end) {
#ifdef __SSE__
            _mm_pause();
#endif
            outcome = outcome_of(count);
        }
        return outcome;
    }
    void wake() {
        if (sleepers_ == 0) return;
        { const std::lock_guard lock(mutex_); } // who is about to sleep has the lock until it does
        changed_.notify_all();
    }

    std::atomic<std::uint64_t> word_ = 0; ///< the count; with `failure` if it has failed
    mutable std::atomic<unsigned> sleepers_ = 0;
    const Spin spin_;
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
};

} // namespace towers
