#include "engine/shares/follower.h"

#include "engine/shares/tuning.h"

#include <cmath>

namespace towers {

std::optional<Shares> Follower::better(const Standings& standings) const {
    const unsigned count = standings.count();
    if (count < 2) return std::nullopt;
    Shares best = standings.best();
    if (!(standings.gain(best) > needed_gain(count))) return std::nullopt;
    return best;
}

double Follower::needed_gain(unsigned count) const {
    const tuning::Follow& by = tuning::follow;
    const double patience = std::exp2(moves_ > by.free_moves ? moves_ - by.free_moves : 0);
    return count < 2 ? INFINITY : by.least_gain + by.gain_of_one_step * patience / count;
}

void Follower::moved() {
    ++moves_;
    calm_steps_ = 0;
}

void Follower::step_taken(bool speed_changed) {
    if (speed_changed) moves_ = 0;
    if (++calm_steps_ < tuning::follow.calm_steps) return;
    moves_ -= moves_ > 0;
    calm_steps_ = 0;
}

} // namespace towers
