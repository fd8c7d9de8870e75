#include "engine/plan/cuts.h"

#include <algorithm>
#include <cstdint>
#include <set>

namespace towers {
namespace {

/// The levels that use a bucket.
struct Use {
    std::size_t first_read = SIZE_MAX; ///< the first level that reads its parameters
    /// The last level that writes its gradients or reads its parameters; afterwards the host may send new
    /// ones.
    std::size_t complete = 0;
};

bool is_exchange(const Operation& operation) {
    return std::holds_alternative<PlannedExchange>(operation.work);
}

std::vector<Use> uses_of(std::span<const ArenaRange> buckets, const Plan& plan) {
    std::vector<Use> uses(buckets.size());
    for (std::size_t level = 0; level < plan.levels().size(); ++level)
        for (const Operation& operation : plan.levels()[level])
            for (const auto& [id, reads, writes] : Plan::uses(operation)) {
                const PlannedTensor& tensor = plan.at(id);
                for (std::size_t i = 0; i < buckets.size(); ++i) {
                    if (!overlap(tensor, buckets[i])) continue;
                    const bool is_read = tensor.arena == Arena::state && reads;
                    if (is_read || (tensor.arena == Arena::gradients && writes)) uses[i].complete = level;
                    if (is_read) uses[i].first_read = std::min(uses[i].first_read, level);
                }
            }
    return uses;
}

} // namespace

std::vector<Cut> cut(const Plan& plan, std::span<const ArenaRange> buckets) {
    const std::vector<Level>& levels = plan.levels();
    const std::vector<Use> uses = uses_of(buckets, plan);
    std::set<std::size_t> ends{levels.size()};
    for (const Use& use : uses) {
        ends.insert(use.complete + 1);
        if (use.first_read != SIZE_MAX) ends.insert(use.first_read);
    }
    for (std::size_t level = 0; level < levels.size(); ++level)
        if (std::ranges::any_of(levels[level], is_exchange)) ends.insert(level);
    ends.erase(0);

    std::vector<Cut> cuts;
    std::size_t begin = 0, complete = 0;
    for (const std::size_t end : ends) {
        Cut& next = cuts.emplace_back(Cut{.level = end, .buckets = 0, .needs = {}});
        // Buckets are delivered in order, so one that is complete early waits for those before it.
        while (complete < uses.size() && uses[complete].complete < end) ++complete;
        next.buckets = complete;
        for (std::size_t i = 0; i < uses.size(); ++i)
            if (uses[i].first_read >= begin && uses[i].first_read < end) next.needs.push_back(i);
        begin = end;
    }
    return cuts;
}

std::vector<Cut> cut_before_update(const Plan& plan) {
    const std::vector<Level>& levels = plan.levels();
    const auto updates = std::ranges::find_if(levels, [&](const Level& level) {
        return std::ranges::any_of(level, [&](const Operation& operation) {
            return std::ranges::any_of(Plan::uses(operation), [&](const auto& use) {
                return use.writes && plan.at(use.tensor).arena == Arena::state;
            });
        });
    });
    std::vector<Cut> cuts;
    const auto add = [&](std::size_t level) { cuts.push_back({.level = level, .buckets = 0, .needs = {}}); };
    if (const auto level = std::size_t(updates - levels.begin()); level > 0 && level < levels.size())
        add(level);
    add(levels.size());
    return cuts;
}

} // namespace towers
