#include "engine/towers/group_watchdog.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace towers {
namespace {

std::atomic<bool> a_tower_hangs = false;

} // namespace

bool any_tower_hangs() { return a_tower_hangs; }

void GroupWatchdog::begin(const ExpectedTime& expected, std::vector<TowerProgress*> towers) {
    limit_ = patience_.limit(expected);
    left_ = limit_.seconds();
    waiters_woken_ = false;
    towers_ = std::move(towers);
}

bool GroupWatchdog::wait_for(const TowerProgress& tower, Milestones TowerProgress::*what, std::size_t count) {
    for (;;) {
        // Waits in slices, so that time in which the program is stopped hardly counts
        const double slice = std::min(0.1, std::max(left_, 0.0));
        const Milestones::Outcome outcome =
            (tower.*what).wait_for(count, std::chrono::duration<double>(slice));
        if (outcome != Milestones::Outcome::late) return outcome == Milestones::Outcome::passed;
        left_ -= slice;
        if (left_ <= 0) abandon_hanging(what);
    }
}

/// Marks late towers as hanging, except those that wait for another tower at an exchange.
void GroupWatchdog::abandon_hanging(Milestones TowerProgress::*awaited) {
    left_ = limit_.more;
    const bool failed = std::ranges::any_of(towers_, [](auto* tower) { return tower->end.has_failed(); });
    // Towers that waited for the failed one at an exchange may need a moment.
    if (failed && !std::exchange(waiters_woken_, true)) return;
    const auto due = awaited == &TowerProgress::renewal ? awaited : &TowerProgress::end;
    std::vector<TowerProgress*> late;
    std::ranges::copy_if(towers_, std::back_inserter(late), [&](auto* tower) {
        return !(tower->*due).has_failed() && (tower->*due).count() == 0;
    });
    std::size_t first = SIZE_MAX;
    for (const TowerProgress* tower : late) first = std::min(first, tower->exchanges.count());
    for (TowerProgress* tower : late)
        if (tower->exchanges.count() == first) {
            a_tower_hangs = true;
            tower->abandon();
        }
}

} // namespace towers
