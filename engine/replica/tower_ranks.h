// Which towers of a run belong to which rank.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace towers {

/// Each rank's towers lie side by side, in the order of the ranks.
struct TowerRanks {
    std::vector<std::size_t> counts; ///< of each rank, at least one
    std::vector<std::string> hosts;  ///< of each rank

    std::size_t first(unsigned rank) const;
    std::size_t all() const { return first(unsigned(counts.size())); }
    unsigned rank_of(std::size_t tower) const;
};

/// The device of a tower that is called so in the run: what follows its rank, if there is one.
std::string device_of(const std::string& tower);

} // namespace towers
