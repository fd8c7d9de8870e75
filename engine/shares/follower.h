// Adapts the shares to the towers' speeds.
#pragma once

#include "engine/shares/standings.h"

namespace towers {

/// Proposes shares with which all towers finish together, if the predicted gain is large enough. So that
/// noise changes nothing, it requires more gain while few times with the current shares are known, and after
/// many moves.
class Follower {
public:
    /// Shares that are worth a move; none if there are none.
    std::optional<Shares> better(const Standings& standings) const;
    /// The predicted gain that a move needs, if this many times with the current shares count.
    double needed_gain(unsigned count) const;
    /// Reports a move.
    void moved();
    /// Reports a step. If a tower's speed has changed, all moves are free again.
    void step_taken(bool speed_changed);

private:
    unsigned moves_ = 0;      ///< not yet forgotten
    unsigned calm_steps_ = 0; ///< since the last move, or since the last one was forgotten
};

} // namespace towers
