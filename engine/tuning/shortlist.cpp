#include "engine/tuning/shortlist.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace towers {
namespace {

constexpr std::size_t few = 3;
/// The estimate's error for a launch on a card, compared with another way to run it
constexpr double estimate_error = 0.15;

} // namespace

std::vector<Candidate> worth_measuring(std::span<const Candidate> all, Effort effort) {
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::ranges::stable_sort(order, {},
                             [&](std::size_t i) { return std::pair(!all[i].used, all[i].config.cost); });
    if (effort == Effort::automatic) {
        double least = std::numeric_limits<double>::infinity();
        for (const Candidate& each : all) least = std::min(least, each.config.cost);
        std::erase_if(order, [&](std::size_t i) {
            const double cost = all[i].config.cost;
            return !all[i].used && !(std::isfinite(cost) && cost <= (1 + estimate_error) * least);
        });
        if (order.size() < 2) return {};
    }
    if (effort != Effort::full && order.size() > few) order.erase(order.begin() + few, order.end());
    std::erase(order, all.size() - 1);
    order.push_back(all.size() - 1);
    std::vector<Candidate> worth;
    for (const std::size_t i : order) worth.push_back(all[i]);
    return worth;
}

} // namespace towers
