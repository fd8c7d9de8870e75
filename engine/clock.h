// The host's clock, for what is timed from outside a device.
#pragma once

#include <chrono>

namespace towers {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

} // namespace towers
