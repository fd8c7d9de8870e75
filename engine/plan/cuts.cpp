#include "engine/plan/cuts.h"

#include <algorithm>

namespace towers {

std::vector<Cut> cut(const Plan& plan, std::span<const ArenaRange> buckets) {
    const std::vector<Level>& levels = plan.levels();
    std::vector<Cut> cuts;
    std::vector<bool> arrived(buckets.size() + 1);
    std::size_t delivered = 0;
    for (std::size_t level = 0; level < levels.size(); ++level) {
        if (std::ranges::any_of(levels[level], [](const Operation& operation) {
                return std::holds_alternative<PlannedExchange>(operation.work);
            }))
            if (cuts.empty() || cuts.back().level != level) cuts.push_back({level, delivered});
        for (const Operation& operation : levels[level])
            if (const auto* copy = std::get_if<PlannedCopy>(&operation.work)) {
                const PlannedTensor& target = plan.tensors()[copy->target.index()];
                if (target.arena != Arena::staged_gradients) continue;
                const auto bucket = std::ranges::find(buckets, target.offset, &ArenaRange::offset);
                arrived[std::size_t(bucket - buckets.begin())] = true;
            }
        // A bucket may be complete before the one that goes out ahead of it.
        const std::size_t before = delivered;
        while (delivered < buckets.size() && arrived[delivered]) ++delivered;
        if (delivered != before) cuts.push_back({level + 1, delivered});
    }
    if (cuts.empty() || cuts.back().level != levels.size()) cuts.push_back({levels.size(), delivered});
    return cuts;
}

} // namespace towers
