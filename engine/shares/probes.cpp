#include "engine/shares/probes.h"

#include "engine/shares/tuning.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

namespace towers {

Shares Probes::next(const Standings& standings) const {
    const unsigned group = standings.group;
    Shares examples(standings.towers());
    if (sizes_ == 0) {
        std::uint64_t working = 0;
        for (std::size_t i = 0; i < examples.size(); ++i)
            if (standings.can_work(i)) examples[i] = group, ++working;
        const bool small = working * tuning::probe.least_groups * group <= standings.global;
        return working > 1 && small ? examples : Shares();
    }
    if (sizes_ == tuning::probe.most_sizes) return {};
    const std::vector<LoadModel> known = standings.models();
    double shortest = INFINITY;
    for (std::size_t i = 0; i < examples.size(); ++i) {
        unsigned part = standings.now.shares[i] / tuning::probe.part / group * group;
        if (part == group) part *= 2;
        if (part == 0 || part < 2 * largest_[i]) continue;
        examples[i] = part;
        shortest = std::min(shortest, known[i].seconds(group));
    }
    for (std::size_t i = 0; i < examples.size(); ++i)
        if (known[i].seconds(group) > tuning::probe.much_slower * shortest) examples[i] = 0;
    return shortest < INFINITY ? examples : Shares();
}

bool Probes::take(Standings& standings, std::span<const double> tower_seconds) {
    if (first_.empty()) {
        first_.assign(tower_seconds.begin(), tower_seconds.end());
        return false;
    }
    const Shares examples = next(standings);
    for (std::size_t i = 0; i < examples.size(); ++i) {
        if (examples[i] == 0) continue;
        TowerLoad& load = standings.now.loads[i];
        load.give(examples[i]);
        load.add(first_[i]);                             // ignored
        load.add(std::min(first_[i], tower_seconds[i])); // the shorter one, since disturbances only add time
        largest_[i] = examples[i];
    }
    first_.clear();
    ++sizes_;
    return true;
}

Shares Probes::shares(const Standings& standings) const {
    const std::vector<LoadModel> known = standings.models();
    Shares best = standings.best();
    const double step = slowest_seconds(known, best);
    for (std::size_t i = 0; i < best.size(); ++i) {
        const bool may_be_worth_it = known[i].seconds(standings.group) < tuning::probe.too_slow * step;
        if (best[i] > 0 || !standings.can_work(i) || !may_be_worth_it) continue;
        *std::ranges::max_element(best) -= standings.group;
        best[i] = standings.group;
    }
    const bool start_fits = std::ranges::equal(start_, standings.most, std::ranges::less_equal());
    const double gain = slowest_seconds(known, start_) / slowest_seconds(known, best) - 1;
    return start_fits && !(gain > tuning::probe.gain) ? start_ : best;
}

} // namespace towers
