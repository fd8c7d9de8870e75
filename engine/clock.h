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

inline double seconds_between(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
}
inline double seconds_since(Clock::time_point begin) {
    return seconds_between(begin, Clock::now());
}

} // namespace towers
