#include "engine/tuning/shortlist.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace towers {
namespace {

constexpr std::size_t few = 3;

} // namespace

std::vector<Candidate> worth_measuring(std::span<const Candidate> all, Effort effort) {
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::ranges::stable_sort(order, {},
                             [&](std::size_t i) { return std::pair(!all[i].used, all[i].config.cost); });
    if (effort != Effort::full) order.resize(std::min(order.size(), few));
    std::erase(order, all.size() - 1);
    order.push_back(all.size() - 1);
    std::vector<Candidate> worth;
    for (const std::size_t i : order) worth.push_back(all[i]);
    return worth;
}

} // namespace towers
