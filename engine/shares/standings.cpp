#include "engine/shares/standings.h"

#include "engine/shares/tuning.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace towers {

Standings::Standings(unsigned global_batch, unsigned group_size, Shares start)
    : global(global_batch), group(group_size), most(start.size(), global), shut_out(start.size()) {
    now.shares = std::move(start);
    now.loads = std::vector<TowerLoad>(now.shares.begin(), now.shares.end());
}

bool Standings::add(std::span<const double> tower_seconds, double step_seconds) {
    const bool warm = std::ranges::all_of(now.loads, &TowerLoad::warm);
    bool changed = false;
    for (std::size_t i = 0; i < towers(); ++i)
        if (now.loads[i].add(tower_seconds[i])) changed = true;
    if (warm && usable_seconds(step_seconds)) now.steps.push_back(step_seconds);
    if (now.steps.size() > tuning::trial.step_window) now.steps.erase(now.steps.begin());
    return changed;
}

void Standings::give(const Shares& shares) {
    now.shares = shares;
    now.steps.clear();
    for (std::size_t i = 0; i < towers(); ++i) now.loads[i].give(shares[i]);
}

std::vector<LoadModel> Standings::models() const {
    std::vector<LoadModel> models(towers());
    double seconds = 0, examples = 0;
    for (std::size_t i = 0; i < towers(); ++i)
        if (const auto model = now.loads[i].model()) {
            models[i] = *model;
            seconds += model->seconds(global), examples += global;
        }
    for (std::size_t i = 0; i < towers(); ++i)
        if (!now.loads[i].model()) models[i] = {0, seconds > 0 ? seconds / examples : 1};
    return models;
}

Shares Standings::room() const {
    Shares room = most;
    for (std::size_t i = 0; i < towers(); ++i)
        if (shut_out[i] || (now.shares[i] == 0 && !now.loads[i].model())) room[i] = 0;
    return hold_all(room) ? room : most;
}

bool Standings::hold_all(std::span<const unsigned> largest) const {
    std::uint64_t held = 0;
    for (const unsigned examples : largest) held += examples / group * group;
    return held >= global;
}

unsigned Standings::count() const {
    unsigned count = ~0u;
    for (const TowerLoad& load : now.loads)
        if (load.share() > 0) count = std::min(count, load.count());
    return count;
}

} // namespace towers
