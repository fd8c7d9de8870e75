#include "engine/shares/trials.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace towers {

std::size_t Trials::Trial::needed() const {
    const tuning::Trial& by = tuning::trial;
    // A tower that adds a fiftieth gets the most: what it adds is about the noise of single steps' medians.
    return std::clamp(std::size_t(double(by.most_steps) / (50 * adds)), by.steps, by.most_steps);
}

double Trials::Trial::threshold() const { return std::max(tuning::trial.clearly_faster, 1 - adds); }

void Trials::start(Standings& standings) {
    const Standings::Present& now = standings.now;
    if (standings.count() < tuning::trial.settled_steps || now.steps.size() < tuning::trial.settled_steps)
        return;
    const double step = median_seconds(now.steps);
    for (std::size_t i = 0; i < rests_.size(); ++i) { // measured at another speed, so no longer valid
        const std::optional<Idle>& shut_out = standings.shut_out[i];
        if (shut_out && step > tuning::trial.other_speed * shut_out->without) rests_[i].steps = 0;
    }
    for (std::size_t i = 0; i < rests_.size(); ++i)
        if (now.shares[i] == 0 && rests_[i].steps == 0 && standings.can_work(i))
            return try_idle(standings, i);
    try_without(standings);
}

void Trials::begin(Kind kind, std::size_t tower, Standings& standings, const Shares& shares) {
    trial_ = Trial{.kind = kind, .tower = tower, .before = standings.now};
    standings.give(shares);
}

void Trials::try_idle(Standings& standings, std::size_t tower) {
    const std::vector<LoadModel> known = standings.models();
    if (standings.shut_out[tower]) {
        Shares most = standings.room();
        most[tower] = standings.most[tower];
        const Shares with = balanced_shares(known, standings.global, standings.group, most);
        if (with[tower] > 0) return begin(Kind::with, tower, standings, with);
        standings.shut_out[tower].reset(); // its model already says so
    }
    Shares shares = standings.now.shares;
    std::size_t last = 0;
    for (std::size_t i = 1; i < known.size(); ++i)
        if (known[i].seconds(shares[i]) > known[last].seconds(shares[last])) last = i;
    shares[last] -= standings.group;
    shares[tower] += standings.group;
    begin(Kind::one_group, tower, standings, shares);
}

void Trials::try_without(Standings& standings) {
    const std::vector<LoadModel> known = standings.models();
    const Shares& now = standings.now.shares;
    double least = tuning::trial.adds_little;
    std::size_t tower = known.size();
    Shares shares;
    for (std::size_t i = 0; i < known.size(); ++i) {
        if (now[i] == 0 || now[i] == standings.global || rests_[i].steps > 0) continue;
        Shares most = standings.room();
        most[i] = 0;
        if (!standings.hold_all(most)) continue;
        Shares without = balanced_shares(known, standings.global, standings.group, most);
        const double ratio = slowest_seconds(known, without) / slowest_seconds(known, now);
        if (ratio >= least) continue;
        least = ratio, tower = i, shares = std::move(without);
    }
    if (tower == known.size()) return;
    begin(Kind::without, tower, standings, shares);
    trial_->adds = std::max(least - 1, 1e-3);
}

std::optional<Shares> Trials::judge(Standings& standings, const Follower& follower) {
    ++trial_->steps;
    if (trial_->kind == Kind::one_group) return judge_one_group(standings, follower);
    judge_whole_steps(standings);
    return std::nullopt;
}

void Trials::judge_whole_steps(Standings& standings) {
    const bool measured = standings.now.steps.size() >= trial_->needed();
    if (!measured && trial_->steps < tuning::trial.longest) return;
    Trial trial = *std::exchange(trial_, std::nullopt);
    Rest& rest = rests_[trial.tower];
    rest.steps = rest.pause;
    rest.pause = std::min(2 * rest.pause, tuning::trial.longest_pause);
    std::optional<Idle>& shut_out = standings.shut_out[trial.tower];
    const double before = median_seconds(trial.before.steps);
    const double after = measured ? median_seconds(standings.now.steps) : INFINITY;
    if (!(after < before * trial.threshold())) {
        if (measured && shut_out) shut_out = Idle{true, after, before};
        standings.now = std::move(trial.before);
        return;
    }
    if (trial.kind == Kind::without)
        shut_out = Idle{true, before, after};
    else
        shut_out.reset();
    // The others' speed differs with and without this tower.
    for (TowerLoad& load : standings.now.loads) load.adopt_present_speed();
}

std::optional<Shares> Trials::judge_one_group(Standings& standings, const Follower& follower) {
    const std::size_t tower = trial_->tower;
    TowerLoad load = standings.now.loads[tower];
    const unsigned count = load.count();
    const bool over = trial_->steps >= tuning::trial.longest;
    if (count == 0 && !over) return std::nullopt;
    Standings::Present tried = std::exchange(standings.now, trial_->before);
    TowerLoad& known = standings.now.loads[tower];
    if (const auto old = known.model(); count > 0 && old && known.knows_fixed()) {
        const double ratio = load.model()->seconds(standings.group) / old->seconds(standings.group);
        if (ratio > tuning::trial.other_speed || ratio < 1 / tuning::trial.other_speed)
            load.adopt_present_speed();
    }
    known = std::move(load);
    Shares best = standings.best();
    const double gain = standings.gain(best);
    if (best[tower] > 0 && gain > tuning::follow.least_gain && !over) {
        if (gain > follower.needed_gain(count)) {
            trial_.reset();
            return best;
        }
        standings.now = std::move(tried); // it may pay: measure more
        return std::nullopt;
    }
    trial_.reset();
    known.give(0);
    rest(standings, tower);
    return std::nullopt;
}

void Trials::cancel(Standings& standings) {
    if (trial_) standings.now = std::exchange(trial_, std::nullopt)->before;
}

void Trials::rest(const Standings& standings, std::size_t tower) {
    const double step = standings.seconds(standings.now.shares);
    // A trial with one group takes at most two steps: one to record it, one to measure.
    const double cost = 2 * (standings.models()[tower].seconds(standings.group) - step) / step;
    rests_[tower].steps =
        unsigned(std::clamp(tuning::trial.rest_per_cost * cost, double(tuning::trial.shortest_rest), 1e9));
}

void Trials::step_taken() {
    for (Rest& rest : rests_) rest.steps -= rest.steps > 0;
}

} // namespace towers
