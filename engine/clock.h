// The host's clock, which times devices from outside.
#pragma once

#include <atomic>
#include <chrono>

namespace towers {

struct Clock : std::chrono::steady_clock {
    static time_point now() { return source.load(std::memory_order_relaxed)(); }
    /// Where the time comes from; tests may have their own.
    static inline std::atomic<time_point (*)()> source = &std::chrono::steady_clock::now;
};

inline double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

} // namespace towers
