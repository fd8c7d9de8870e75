// Notices when a device's threads wait for processors that other programs or towers use.
#pragma once

#include <map>
#include <optional>

namespace towers {

/// Threads end each loop together. If one has no processor, all wait for it, often for milliseconds in loops
/// of microseconds. This class decides when that has lasted so long that the user should know. It uses no
/// clock.
class Crowding {
public:
    /// Reports this many seconds of work by the threads. Returns whether it is time to judge().
    bool worked(double seconds);
    /// `waited`: of the thread that waited longest, the seconds since the last call, or the start, in which
    /// it was ready but had no processor. Once, after ten seconds of work with much waiting, returns the part
    /// of the time that was spent waiting.
    std::optional<double> judge(double waited);

private:
    double seconds_ = 0;                              ///< of work since the last judgement
    double crowded_seconds_ = 0, crowded_waited_ = 0; ///< since the threads began to wait much
    bool told_ = false;
};

/// Measures how long the OpenMP threads of a calling thread wait for processors.
class ThreadWaits {
public:
    /// Whether Linux provides these times.
    static bool are_known();
    /// Of the calling thread's team with this many threads, for the one that waited longest: the seconds
    /// since the last call in which it was ready but had no processor. OpenMP may replace threads between two
    /// calls; a new one has not waited.
    double longest(unsigned threads);

private:
    std::map<int, double> waited_; ///< total seconds, by Linux's thread id
};

} // namespace towers
