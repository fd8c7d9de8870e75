// The host's clock, which times devices from outside.
#pragma once

#include <chrono>

namespace towers {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

} // namespace towers
