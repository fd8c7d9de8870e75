#include "engine/liveness/group_watchdog.h"

#include <array>
#include <doctest/doctest.h>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

namespace towers {
namespace {

constexpr double limit = 62;

/// Three towers in a step that may take 62 s. Time passes whenever the watchdog waits.
struct TimedStep {
    std::array<TowerProgress, 3> towers;
    double passed = 0; ///< seconds
    std::function<void()> on_pause = {};
    std::vector<std::size_t> late = {}; ///< after each pause
    GroupWatchdog watchdog{Patience(60, {.length = {}, .counts = [this](std::size_t count) {
                                             late.push_back(count);
                                             passed += 0.5;
                                             if (on_pause) on_pause();
                                             if (passed > 1000)
                                                 throw std::runtime_error("nobody is given up");
                                             return 0.5;
                                         }})};

    TimedStep() { watchdog.begin({2, true}, std::array{&towers[0], &towers[1], &towers[2]}); }

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
    TimedStep step;
    step.towers[0].end.advance(1);
    step.towers[2].end.advance(1);
    CHECK(step.wait_for(0));
    CHECK(step.passed == 0);
    CHECK_FALSE(step.wait_for(1));
    CHECK(step.passed == limit); // not earlier
    CHECK(step.abandoned() == Those{false, true, false});
    CHECK(step.towers[1].end.has_failed());
    CHECK(step.wait_for(2));
}

TEST_CASE("of late towers those hang that the others wait for at an exchange") {
    TimedStep step;
    step.towers[0].exchanges.advance(3);
    step.towers[1].exchanges.advance(2);
    step.towers[2].exchanges.advance(3);
    CHECK_FALSE(step.wait_for(1));
    CHECK(step.passed == limit);
    CHECK(step.late == std::vector<std::size_t>(124, 1));
    CHECK(step.abandoned() == Those{false, true, false});
    // Its failure wakes the others, which then fail by themselves.
    step.towers[0].fail();
    step.towers[2].fail();
    CHECK_FALSE(step.wait_for(0));
    CHECK_FALSE(step.wait_for(2));
    CHECK(step.abandoned() == Those{false, true, false});
}

TEST_CASE("several towers may hang at once") {
    TimedStep step;
    step.towers[1].end.advance(1);
    CHECK_FALSE(step.wait_for(0));
    CHECK(step.passed == limit);
    CHECK(step.late.back() == 2);
    CHECK(step.abandoned() == Those{true, false, true});
    CHECK_FALSE(step.wait_for(2));
    CHECK(step.wait_for(1));
}

TEST_CASE("a tower that hangs when it sends for the new parameters is found too") {
    TimedStep step;
    for (TowerProgress& tower : step.towers) tower.end.advance(1);
    step.towers[0].renewal.advance(1);
    step.towers[2].renewal.advance(1);
    for (std::size_t i = 0; i < 3; ++i) CHECK(step.wait_for(i));
    CHECK(step.wait_for(0, &TowerProgress::renewal));
    CHECK_FALSE(step.wait_for(1, &TowerProgress::renewal));
    CHECK(step.abandoned() == Those{false, true, false});
}

TEST_CASE("the step's time is one for all its waits") {
    TimedStep step;
    step.on_pause = [&] {
        if (step.passed == 40) step.towers[0].end.advance(1);
    };
    CHECK(step.wait_for(0));
    CHECK(step.passed == 40);
    step.towers[2].end.advance(1);
    CHECK_FALSE(step.wait_for(1));
    CHECK(step.passed == limit);
    CHECK(step.abandoned() == Those{false, true, false});
}

TEST_CASE("when a tower has failed, those that waited for it get the time to say so") {
    TimedStep step;
    step.towers[0].fail();
    step.on_pause = [&] {
        if (step.passed == limit + 30) step.towers[1].fail(); // woken, but on a slow machine
    };
    CHECK_FALSE(step.wait_for(1));
    CHECK(step.passed == limit + 30);
    CHECK(step.abandoned() == Those{});
    CHECK_FALSE(step.wait_for(2)); // hangs
    CHECK(step.passed == limit + 60);
    CHECK(step.abandoned() == Those{false, false, true});
}

TEST_CASE("outside of tests, the seconds that a pause counts are those that it lasts") {
    CHECK(Pause().counts(1) == Pause().length.count());
}

TEST_CASE("a step that is waited for without end may take any time") {
    std::array<TowerProgress, 1> towers;
    GroupWatchdog watchdog{Patience()};
    watchdog.begin({1, true}, std::array{towers.data()});
    CHECK(watchdog.limit().seconds() == std::numeric_limits<double>::infinity());
    towers[0].end.advance(1);
    CHECK(watchdog.wait_for(towers[0], &TowerProgress::end, 1));
}

} // namespace towers
