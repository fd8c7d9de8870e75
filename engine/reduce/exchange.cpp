#include "engine/reduce/exchange.h"

#include "backends/denormals.h"

namespace towers {
namespace {

void add_up(std::span<const Exchange* const> towers, const Exchange& target) {
    for (std::size_t list = 0; list < target.merged.size(); ++list)
        for (std::size_t i = 0; i < target.merged[list].size(); ++i) {
            double sum = 0;
            for (const Exchange* tower : towers) sum += tower->given[list][i];
            target.merged[list][i] = float(sum);
        }
}

/// With n values of mean m and M2 q on each tower: mean = sum of n m / sum of n, M2 = sum of q + n (m -
/// mean)^2.
void merge_moments(std::span<const Exchange* const> towers, const Exchange& target) {
    double values = 0;
    for (const Exchange* tower : towers) values += tower->values;
    const auto& [means, m2s] = target.merged;
    for (std::size_t i = 0; i < means.size(); ++i) {
        double mean = 0;
        for (const Exchange* tower : towers) mean += tower->values / values * tower->given[0][i];
        double m2 = 0;
        for (const Exchange* tower : towers) {
            const double distance = tower->given[0][i] - mean;
            m2 += tower->given[1][i] + tower->values * distance * distance;
        }
        means[i] = float(mean);
        m2s[i] = float(m2);
    }
}

} // namespace

void merge(std::span<const Exchange* const> towers, const Exchange& target) {
    const FlushDenormals flush;
    switch (target.merge) {
    case Merge::sum:
        return add_up(towers, target);
    case Merge::moments:
        return merge_moments(towers, target);
    }
}

} // namespace towers
