// Before the first step: how many examples towers of which nothing is known try.
#pragma once

#include "engine/balance/standings.h"

#include <utility>

namespace towers {

/// First a smallest share: it costs little even on the slowest tower, and bounds what more examples take.
/// Then a part of what each tower would get by that, again and again while it promises to be far more than
/// what was tried: where much of a tower's time is fixed, a smallest share tells little of larger ones. Slow
/// towers wait for what the others show: they may need no share.
class Probes {
public:
    explicit Probes(Shares start) : start_(std::move(start)), largest_(start_.size()) {}

    /// The examples that each tower tries next; empty when enough is known, or when trying would take about
    /// as long as steps that count.
    Shares next(const Standings& standings) const;
    /// Takes each tower's seconds for next(). Each size is taken twice, since the first time holds recording
    /// and compilation. True when the towers' loads have learned from a size.
    bool take(Standings& standings, std::span<const double> tower_seconds);
    /// A size of which only the first time was taken counts as not taken.
    void begin_size_again() { first_.clear(); }
    /// The shares after what has been tried: those of the start unless others promise far shorter steps.
    Shares shares(const Standings& standings) const;

private:
    Shares start_, largest_;    ///< largest_: that each tower has tried; 0: none
    std::vector<double> first_; ///< the towers' seconds when a size has been taken once
    unsigned sizes_ = 0;        ///< that have been tried
};

} // namespace towers
