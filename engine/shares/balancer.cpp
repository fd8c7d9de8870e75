#include "engine/shares/balancer.h"

#include <algorithm>
#include <stdexcept>

namespace towers {

void Balancer::probed(std::span<const double> tower_seconds) {
    if (!probes_.take(standings_, tower_seconds)) return;
    standings_.give(probes_.shares(standings_));
    for (std::size_t i = 0; i < standings_.towers(); ++i)
        if (shares()[i] == 0) trials_.rest(standings_, i);
}

bool Balancer::observe(std::span<const double> tower_seconds, double step_seconds) {
    if (tower_seconds.size() != standings_.towers())
        throw std::invalid_argument("Balancer: a time for each tower is needed");
    const Shares before = shares();
    follower_.step_taken(standings_.add(tower_seconds, step_seconds));
    trials_.step_taken();
    if (const bool was_trying = trying();
        const auto better = was_trying ? trials_.judge(standings_, follower_) : follower_.better(standings_))
        move(*better);
    else if (!was_trying)
        trials_.start(standings_);
    return shares() != before;
}

void Balancer::move(const Shares& shares) {
    const Shares before = standings_.now.shares;
    standings_.give(shares);
    for (std::size_t i = 0; i < shares.size(); ++i)
        if (shares[i] == 0 && before[i] > 0) trials_.rest(standings_, i);
    follower_.moved();
}

void Balancer::limit(std::size_t tower, unsigned examples) {
    unsigned& most = standings_.most.at(tower);
    most = std::min(most, examples);
    probes_.begin_size_again();
    trials_.cancel(standings_);
    if (shares()[tower] > most) move(standings_.best());
}

std::optional<Idle> Balancer::idle(std::size_t tower) const {
    if (shares().at(tower) > 0 || trying()) return std::nullopt;
    if (standings_.shut_out[tower]) return standings_.shut_out[tower];
    const auto model = standings_.now.loads[tower].model();
    if (!model) return std::nullopt;
    return Idle{false, model->seconds(standings_.group), standings_.seconds(shares())};
}

} // namespace towers
