#include "engine/towers/balance.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace towers {

namespace {

constexpr std::size_t step_window = 32; // whole steps that are kept
constexpr unsigned settled_steps = 30;  // with the same shares, before anything is tried
constexpr std::size_t trial_steps = 3;  // that count, of a trial of whole steps
constexpr unsigned longest_trial = 20;  // steps, when times are unusable
constexpr double adds_little = 1.6;     // step without a tower / step with it, from which it is tried without
constexpr double clearly_faster = 0.97; // step after / step before, for a trial to change something
constexpr double least_gain = 0.015;    // by which a move must promise to shorten a step
constexpr double gain_one_step = 0.1;   // more, as long as the present shares have had one step
constexpr unsigned free_moves = 4;      // each further one needs twice the steps
constexpr unsigned calm_per_move = 400; // steps after which a move is forgotten
constexpr unsigned first_pause = 500;   // steps between trials of whole steps
constexpr unsigned longest_pause = 8000;
constexpr unsigned shortest_rest = 200; // steps between trials with one group
constexpr double rest_per_cost = 100;   // so that such trials take 1 % of the time
constexpr double other_speed = 1.25;    // a time that is further off its model is of another speed
constexpr unsigned least_groups = 2; // in a tower's even share, for a smallest share to be a small part of it
constexpr unsigned probed_part = 4;  // of a share that seems right, one in so many examples is probed
constexpr double much_slower = 4;    // for a smallest share
constexpr unsigned most_probes = 5;  // sizes
constexpr double probe_gain = 0.25; // by which other shares must promise to shorten a step: one time is noisy
constexpr double too_slow = 2; // smallest share / step of the others, from which one time is enough for none

} // namespace

Balancer::Balancer(unsigned global, unsigned group, std::vector<unsigned> start)
    : global_(global), group_(group) {
    for (const unsigned share : start) {
        now_.towers.emplace_back(share);
        standings_.push_back({.most = global, .pause = first_pause});
    }
    now_.shares = start_ = std::move(start);
    probed_.resize(start_.size());
}

// First a smallest share: it costs little on the slowest of towers, and bounds what more examples take it.
// Then a part of what each tower would get by that, again as long as it promises to be far more than what was
// tried: where much of a tower's time is fixed, a smallest share tells little of larger ones. Slower towers
// wait for what is found of much faster ones, by which they may need no share.
std::vector<unsigned> Balancer::probe() const {
    std::vector<unsigned> examples(now_.shares.size());
    if (probes_ == 0) {
        std::uint64_t towers = 0;
        for (std::size_t i = 0; i < examples.size(); ++i)
            if (standings_[i].most >= group_) examples[i] = group_, ++towers;
        return towers > 1 && towers * least_groups * group_ <= global_ ? examples : std::vector<unsigned>();
    }
    if (probes_ == most_probes) return {};
    const std::vector<LoadModel> known = models();
    double shortest = INFINITY;
    for (std::size_t i = 0; i < examples.size(); ++i) {
        unsigned part = now_.shares[i] / probed_part / group_ * group_;
        if (part == group_) part *= 2;
        if (part == 0 || part < 2 * probed_[i]) continue;
        examples[i] = part;
        shortest = std::min(shortest, known[i].seconds(group_));
    }
    for (std::size_t i = 0; i < examples.size(); ++i)
        if (known[i].seconds(group_) > much_slower * shortest) examples[i] = 0;
    return shortest < INFINITY ? examples : std::vector<unsigned>();
}

// Each size is taken twice: the first time holds recording and compilation. The shorter one counts, since
// times err upwards.
void Balancer::probed(std::span<const double> tower_seconds) {
    if (first_probe_.empty()) {
        first_probe_.assign(tower_seconds.begin(), tower_seconds.end());
        return;
    }
    const std::vector<unsigned> examples = probe();
    for (std::size_t i = 0; i < examples.size(); ++i) {
        if (examples[i] == 0) continue;
        now_.towers[i].give(examples[i]);
        now_.towers[i].add(first_probe_[i]);
        now_.towers[i].add(std::min(first_probe_[i], tower_seconds[i]));
        probed_[i] = examples[i];
    }
    first_probe_.clear();
    ++probes_;
    settle_probes();
}

void Balancer::settle_probes() {
    const std::vector<LoadModel> known = models();
    std::vector<unsigned> best = balanced_shares(known, global_, group_, room());
    const double step = slowest_seconds(known, best);
    for (std::size_t i = 0; i < best.size(); ++i)
        if (best[i] == 0 && standings_[i].most >= group_ && known[i].seconds(group_) < too_slow * step) {
            *std::ranges::max_element(best) -= group_;
            best[i] = group_;
        }
    bool fits = true;
    for (std::size_t i = 0; i < start_.size(); ++i) fits = fits && start_[i] <= standings_[i].most;
    const double gain = slowest_seconds(known, start_) / slowest_seconds(known, best) - 1;
    give(fits && !(gain > probe_gain) ? start_ : best);
    for (std::size_t i = 0; i < best.size(); ++i)
        if (now_.shares[i] == 0) rest_idle(i);
}

bool Balancer::observe(std::span<const double> tower_seconds, double step_seconds) {
    if (tower_seconds.size() != now_.towers.size())
        throw std::invalid_argument("Balancer: a time for each tower is needed");
    record(tower_seconds, step_seconds);
    const std::vector<unsigned> before = now_.shares;
    if (trial_)
        judge_trial();
    else if (!rebalance())
        start_trial();
    return now_.shares != before;
}

void Balancer::record(std::span<const double> tower_seconds, double step_seconds) {
    const bool warm = std::ranges::all_of(now_.towers, &TowerLoad::warm);
    for (std::size_t i = 0; i < tower_seconds.size(); ++i)
        if (now_.towers[i].add(tower_seconds[i])) moves_ = 0;
    if (warm && usable_seconds(step_seconds)) now_.steps.push_back(step_seconds);
    if (now_.steps.size() > step_window) now_.steps.erase(now_.steps.begin());
    for (Standing& standing : standings_) standing.rest -= standing.rest > 0;
    if (++calm_steps_ >= calm_per_move) {
        moves_ -= moves_ > 0;
        calm_steps_ = 0;
    }
}

// Of unknown towers the others' speed.
std::vector<LoadModel> Balancer::models() const {
    std::vector<LoadModel> models(now_.towers.size());
    double seconds = 0, examples = 0;
    for (std::size_t i = 0; i < models.size(); ++i)
        if (const auto model = now_.towers[i].model()) {
            models[i] = *model;
            seconds += model->seconds(global_), examples += global_;
        }
    for (std::size_t i = 0; i < models.size(); ++i)
        if (!now_.towers[i].model()) models[i] = {0, seconds > 0 ? seconds / examples : 1};
    return models;
}

// The largest share that each tower may have. Those shut out count only when the others cannot hold
// everything.
std::vector<unsigned> Balancer::room() const {
    std::vector<unsigned> room, all;
    for (std::size_t i = 0; i < standings_.size(); ++i) {
        const bool known = now_.shares[i] > 0 || now_.towers[i].model();
        all.push_back(standings_[i].most);
        room.push_back(known && !standings_[i].shut_out ? standings_[i].most : 0);
    }
    return hold_all(room) ? room : all;
}

// Whether the towers can hold a step's examples together.
bool Balancer::hold_all(std::span<const unsigned> most) const {
    std::uint64_t held = 0;
    for (const unsigned examples : most) held += examples / group_ * group_;
    return held >= global_;
}

// Times that count with the present shares, of the working tower that has the fewest.
unsigned Balancer::count() const {
    unsigned count = ~0u;
    for (const TowerLoad& tower : now_.towers)
        if (tower.share() > 0) count = std::min(count, tower.count());
    return count;
}

double Balancer::needed_gain(unsigned count) const {
    const double patience = std::exp2(moves_ > free_moves ? moves_ - free_moves : 0);
    return count < 2 ? INFINITY : least_gain + gain_one_step * patience / count;
}

bool Balancer::rebalance() {
    if (count() < 2) return false;
    const std::vector<LoadModel> known = models();
    const std::vector<unsigned> best = balanced_shares(known, global_, group_, room());
    const double gain = slowest_seconds(known, now_.shares) / slowest_seconds(known, best) - 1;
    if (!(gain > needed_gain(count()))) return false;
    move(best);
    return true;
}

void Balancer::move(const std::vector<unsigned>& shares) {
    const std::vector<unsigned> before = now_.shares;
    give(shares);
    for (std::size_t i = 0; i < shares.size(); ++i)
        if (shares[i] == 0 && before[i] > 0) rest_idle(i);
    ++moves_;
    calm_steps_ = 0;
}

void Balancer::give(const std::vector<unsigned>& shares) {
    now_.shares = shares;
    now_.steps.clear();
    for (std::size_t i = 0; i < shares.size(); ++i) now_.towers[i].give(shares[i]);
}

// A trial with one group takes at most two steps: one to record it, one to measure.
void Balancer::rest_idle(std::size_t tower) {
    const std::vector<LoadModel> known = models();
    const double step = slowest_seconds(known, now_.shares);
    const double cost = 2 * (known[tower].seconds(group_) - step) / step;
    standings_[tower].rest = unsigned(std::clamp(rest_per_cost * cost, double(shortest_rest), 1e9));
}

bool Balancer::start_trial() {
    if (count() < settled_steps || now_.steps.size() < settled_steps) return false;
    const double step = median_seconds(now_.steps);
    for (Standing& standing : standings_) // what was measured at another speed is no verdict
        if (standing.shut_out && step > other_speed * standing.shut_out->without) standing.rest = 0;
    for (std::size_t i = 0; i < standings_.size(); ++i)
        if (now_.shares[i] == 0 && standings_[i].rest == 0 && standings_[i].most >= group_ && try_idle(i))
            return true;
    return try_without();
}

void Balancer::begin(Trial::Of of, std::size_t tower, const std::vector<unsigned>& shares) {
    trial_ = Trial{.of = of, .tower = tower, .before = now_};
    give(shares);
}

bool Balancer::try_idle(std::size_t tower) {
    const std::vector<LoadModel> known = models();
    if (standings_[tower].shut_out) {
        std::vector<unsigned> most = room();
        most[tower] = standings_[tower].most;
        const std::vector<unsigned> with = balanced_shares(known, global_, group_, most);
        if (with[tower] > 0) {
            begin(Trial::Of::with, tower, with);
            return true;
        }
        standings_[tower].shut_out.reset(); // its model says enough
    }
    std::size_t last = 0;
    for (std::size_t i = 1; i < known.size(); ++i)
        if (known[i].seconds(now_.shares[i]) > known[last].seconds(now_.shares[last])) last = i;
    std::vector<unsigned> shares = now_.shares;
    shares[last] -= group_;
    shares[tower] += group_;
    begin(Trial::Of::one_group, tower, shares);
    return true;
}

bool Balancer::try_without() {
    const std::vector<LoadModel> known = models();
    double least = adds_little;
    std::size_t tower = known.size();
    std::vector<unsigned> shares;
    for (std::size_t i = 0; i < known.size(); ++i) {
        if (now_.shares[i] == 0 || now_.shares[i] == global_ || standings_[i].rest > 0) continue;
        std::vector<unsigned> most = room();
        most[i] = 0;
        if (!hold_all(most)) continue;
        const std::vector<unsigned> without = balanced_shares(known, global_, group_, most);
        const double ratio = slowest_seconds(known, without) / slowest_seconds(known, now_.shares);
        if (ratio >= least) continue;
        least = ratio, tower = i, shares = without;
    }
    if (tower == known.size()) return false;
    begin(Trial::Of::without, tower, shares);
    return true;
}

void Balancer::judge_trial() {
    ++trial_->steps;
    trial_->of == Trial::Of::one_group ? judge_one_group() : judge_whole_steps();
}

void Balancer::judge_whole_steps() {
    const bool over = trial_->steps >= longest_trial;
    if (now_.steps.size() < trial_steps && !over) return;
    const bool measured = now_.steps.size() >= trial_steps;
    Trial trial = *std::exchange(trial_, std::nullopt);
    Standing& standing = standings_[trial.tower];
    standing.rest = standing.pause;
    standing.pause = std::min(2 * standing.pause, longest_pause);
    const double before = median_seconds(trial.before.steps);
    const double after = measured ? median_seconds(now_.steps) : INFINITY;
    if (!(after < before * clearly_faster)) {
        if (measured && standing.shut_out) standing.shut_out = Idle{true, after, before};
        now_ = std::move(trial.before);
        return;
    }
    if (trial.of == Trial::Of::without)
        standing.shut_out = Idle{true, before, after};
    else
        standing.shut_out.reset();
    // What the others did beside this tower, or without it, was another speed.
    for (TowerLoad& tower : now_.towers) tower.adopt_present_speed();
}

void Balancer::judge_one_group() {
    const std::size_t tower = trial_->tower;
    TowerLoad load = now_.towers[tower];
    const unsigned count = load.count();
    const bool over = trial_->steps >= longest_trial;
    if (count == 0 && !over) return;
    const State tried = std::exchange(now_, trial_->before);
    if (const auto old = now_.towers[tower].model(); count > 0 && old && now_.towers[tower].knows_fixed()) {
        const double ratio = load.model()->seconds(group_) / old->seconds(group_);
        if (ratio > other_speed || ratio < 1 / other_speed) load.adopt_present_speed();
    }
    now_.towers[tower] = load;
    const std::vector<LoadModel> known = models();
    const std::vector<unsigned> best = balanced_shares(known, global_, group_, room());
    const double gain = slowest_seconds(known, now_.shares) / slowest_seconds(known, best) - 1;
    if (best[tower] > 0 && gain > least_gain && !over) {
        if (gain > needed_gain(count)) {
            trial_.reset();
            move(best);
        } else
            now_ = tried; // it may be worth it: measure more
        return;
    }
    trial_.reset();
    now_.towers[tower].give(0);
    rest_idle(tower);
}

void Balancer::limit(std::size_t tower, unsigned examples) {
    standings_.at(tower).most = std::min(standings_[tower].most, examples);
    first_probe_.clear();
    if (trial_) now_ = std::exchange(trial_, std::nullopt)->before;
    if (now_.shares[tower] > standings_[tower].most) move(balanced_shares(models(), global_, group_, room()));
}

std::optional<Balancer::Idle> Balancer::idle(std::size_t tower) const {
    if (now_.shares.at(tower) > 0 || trial_) return std::nullopt;
    if (standings_[tower].shut_out) return standings_[tower].shut_out;
    const auto model = now_.towers[tower].model();
    if (!model) return std::nullopt;
    return Idle{false, model->seconds(group_), slowest_seconds(models(), now_.shares)};
}

} // namespace towers
