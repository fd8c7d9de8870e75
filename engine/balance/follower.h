// Shares follow the towers' speeds.
#pragma once

#include "engine/balance/standings.h"

namespace towers {

/// Proposes the shares by which all towers would finish together, when that promises enough: more while few
/// times are known of the present shares, and more after each of many moves, so that noise does not move
/// anything.
class Follower {
public:
    /// Shares that are worth a move.
    std::optional<Shares> better(const Standings& standings) const;
    /// By which a move must promise to shorten a step when so many times of the present shares count.
    double needed_gain(unsigned count) const;
    /// The shares have been moved.
    void moved();
    /// A step has been taken. A tower of another speed makes all moves free again.
    void step_taken(bool speed_changed);

private:
    unsigned moves_ = 0;      ///< that are not forgotten
    unsigned calm_steps_ = 0; ///< since the last move or since one was forgotten
};

} // namespace towers
