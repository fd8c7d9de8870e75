// Notices that the threads of a device wait for processors that others use: other programs, or other towers.
#pragma once

#include <map>
#include <optional>

namespace towers {

/// Threads end each loop together. When one has no processor, all wait for it, often for milliseconds in
/// loops of microseconds. Decides when that has gone on for so long that the user should know. Knows no
/// clock.
class Crowding {
public:
    /// The threads have worked so many seconds. True when it is time to judge().
    bool worked(double seconds);
    /// `waited`: the seconds since the last call, or the start, in which a thread was ready but had no
    /// processor, of the thread that waited longest. Returns the part of the time that this has been, when it
    /// has been much for ten seconds of work: once.
    std::optional<double> judge(double waited);

private:
    double seconds_ = 0;                              ///< of work since the last judgement
    double crowded_seconds_ = 0, crowded_waited_ = 0; ///< since the threads have waited much
    bool told_ = false;
};

/// How long the OpenMP threads of a calling thread wait for processors.
class ThreadWaits {
public:
    /// Whether Linux tells.
    static bool are_known();
    /// The seconds since the last call in which one of the calling thread's team of so many was ready but had
    /// no processor: of the one that waited longest. OpenMP may end threads and begin others between two
    /// calls; one that is new has not waited.
    double longest(unsigned threads);

private:
    std::map<int, double> waited_; ///< seconds in all, by Linux's number of the thread
};

} // namespace towers
