#include "engine/towers/group_watchdog.h"

#include <array>
#include <doctest/doctest.h>
#include <limits>

namespace towers {
namespace {

/// Three towers in a step for which there is no time at all: whoever is waited for is late at once.
struct HastyStep {
    std::array<TowerProgress, 3> towers;
    GroupWatchdog watchdog{0};

    HastyStep() { watchdog.begin({}, {&towers[0], &towers[1], &towers[2]}); }

    bool wait_for(std::size_t tower, Milestones TowerProgress::*what = &TowerProgress::end) {
        return watchdog.wait_for(towers[tower], what, 1);
    }
    std::array<bool, 3> abandoned() const {
        return {towers[0].is_abandoned(), towers[1].is_abandoned(), towers[2].is_abandoned()};
    }
};

using Those = std::array<bool, 3>;

} // namespace

TEST_CASE("a tower that gives no answer in time is abandoned, and those that have done their part are not") {
    HastyStep step;
    step.towers[0].end.advance(1);
    step.towers[2].end.advance(1);
    CHECK(step.wait_for(0));
    CHECK(step.abandoned() == Those{});
    CHECK_FALSE(step.wait_for(1));
    CHECK(step.abandoned() == Those{false, true, false});
    CHECK(step.towers[1].end.has_failed());
    CHECK(step.wait_for(2));
    CHECK(any_tower_hangs());
}

TEST_CASE("of late towers those hang that the others wait for at an exchange") {
    HastyStep step;
    step.towers[0].exchanges.advance(3);
    step.towers[1].exchanges.advance(2);
    step.towers[2].exchanges.advance(3);
    CHECK_FALSE(step.wait_for(1));
    CHECK(step.abandoned() == Those{false, true, false});
    // Its failure wakes the others, which then fail by themselves.
    step.towers[0].fail();
    step.towers[2].fail();
    CHECK_FALSE(step.wait_for(0));
    CHECK_FALSE(step.wait_for(2));
    CHECK(step.abandoned() == Those{false, true, false});
}

TEST_CASE("several towers may hang at once") {
    HastyStep step;
    step.towers[1].end.advance(1);
    CHECK_FALSE(step.wait_for(0));
    CHECK(step.abandoned() == Those{true, false, true});
    CHECK_FALSE(step.wait_for(2));
    CHECK(step.wait_for(1));
}

TEST_CASE("a tower that hangs when it sends for the new parameters is found too") {
    HastyStep step;
    for (TowerProgress& tower : step.towers) tower.end.advance(1);
    step.towers[0].renewal.advance(1);
    step.towers[2].renewal.advance(1);
    for (std::size_t i = 0; i < 3; ++i) CHECK(step.wait_for(i));
    CHECK(step.wait_for(0, &TowerProgress::renewal));
    CHECK_FALSE(step.wait_for(1, &TowerProgress::renewal));
    CHECK(step.abandoned() == Those{false, true, false});
}

TEST_CASE("a step that is waited for without end may take any time") {
    std::array<TowerProgress, 1> towers;
    GroupWatchdog watchdog(std::numeric_limits<double>::infinity());
    watchdog.begin({1, true}, {towers.data()});
    CHECK(watchdog.limit().seconds() == std::numeric_limits<double>::infinity());
    towers[0].end.advance(1);
    CHECK(watchdog.wait_for(towers[0], &TowerProgress::end, 1));
}

} // namespace towers
