// The host's clock, which times devices from outside.
#pragma once

#include <chrono>

namespace towers {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Adds its lifetime to a sum of seconds.
class Stopwatch {
public:
    explicit Stopwatch(double& sum) : sum_(sum) {}
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;
    ~Stopwatch() { sum_ += seconds_since(begin_); }

private:
    double& sum_;
    Clock::time_point begin_ = Clock::now();
};

} // namespace towers
