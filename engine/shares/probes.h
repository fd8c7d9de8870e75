// Probes towers of unknown speed before the first step.
#pragma once

#include "engine/shares/standings.h"

#include <utility>

namespace towers {

/// First probes one group: cheap even on the slowest tower, and a bound for the time of more examples. Then
/// probes a part of the share that each tower would get, and again while that part is far larger than the
/// last probe, because one group says little about larger shares if most of a tower's time is fixed. Slow
/// towers are not probed again until the others are known, since they may get no share at all.
class Probes {
public:
    explicit Probes(Shares start) : start_(std::move(start)), largest_(start_.size()) {}

    /// The examples that each tower tries next. Empty if enough is known, or if trying would take about as
    /// long as real steps.
    Shares next(const Standings& standings) const;
    /// Reports each tower's seconds for next(). Each size runs twice, since the first time includes recording
    /// and compilation. Returns whether the towers' loads have learned from a size.
    bool take(Standings& standings, std::span<const double> tower_seconds);
    /// Drops a size that has run only once.
    void begin_size_again() { first_.clear(); }
    /// The shares after the probes: those of the start, unless others are predicted to make steps far
    /// shorter.
    Shares shares(const Standings& standings) const;

private:
    Shares start_, largest_;    ///< largest_: by tower, its largest probe; 0: none
    std::vector<double> first_; ///< the towers' seconds of a size's first run
    unsigned sizes_ = 0;        ///< how many sizes have been probed
};

} // namespace towers
