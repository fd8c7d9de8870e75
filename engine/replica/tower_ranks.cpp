#include "engine/replica/tower_ranks.h"

#include <numeric>

namespace towers {

std::string device_of(const std::string& tower) { return tower.substr(tower.find('/') + 1); }

std::size_t TowerRanks::first(unsigned rank) const {
    return std::accumulate(counts.begin(), counts.begin() + long(rank), std::size_t(0));
}

unsigned TowerRanks::rank_of(std::size_t tower) const {
    unsigned rank = 0;
    while (tower >= first(rank + 1)) ++rank;
    return rank;
}

} // namespace towers
