#include "engine/liveness/group_watchdog.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace towers {

void GroupWatchdog::begin(const ExpectedTime& expected, std::span<TowerProgress* const> towers) {
    limit_ = patience_.limit(expected);
    left_ = limit_.seconds();
    waiters_woken_ = stop_requested_ = false;
    towers_.assign(towers.begin(), towers.end());
}

bool GroupWatchdog::wait_for(const TowerProgress& tower, Milestones TowerProgress::*what, std::size_t count) {
    for (;;) {
        const Milestones::Outcome outcome = (tower.*what).wait_for(count, patience_.pause().length);
        if (outcome != Milestones::Outcome::late) return outcome == Milestones::Outcome::passed;
        if (std::ranges::any_of(towers_, [](auto* each) { return each->is_excused && !each->end.has_failed(); }))
            continue;
        if (patience_.stop_requested() && !std::exchange(stop_requested_, true))
            left_ = std::min(left_, Patience::at_the_end(limit_));
        const std::vector<TowerProgress*> late = hanging(what);
        left_ -= patience_.pause().counts(late.size());
        if (left_ > 0) continue;
        left_ = stop_requested_ ? std::min(limit_.more, Patience::at_the_end(limit_)) : limit_.more;
        const bool failed = std::ranges::any_of(towers_, [](auto* each) { return each->end.has_failed(); });
        // Towers that waited for the failed one at an exchange may need a moment.
        if (failed && !std::exchange(waiters_woken_, true)) continue;
        for (TowerProgress* each : late) each->abandon();
    }
}

/// The late towers, except those that wait for another tower at an exchange.
std::vector<TowerProgress*> GroupWatchdog::hanging(Milestones TowerProgress::*awaited) const {
    const auto due = awaited == &TowerProgress::renewal ? awaited : &TowerProgress::end;
    std::vector<TowerProgress*> late;
    std::ranges::copy_if(towers_, std::back_inserter(late), [&](auto* tower) {
        return !(tower->*due).has_failed() && (tower->*due).count() == 0;
    });
    std::size_t first = SIZE_MAX;
    for (const TowerProgress* tower : late) first = std::min(first, tower->exchanges.count());
    std::erase_if(late, [&](auto* tower) { return tower->exchanges.count() > first; });
    return late;
}

} // namespace towers
