#include "engine/liveness/progress.h"

#include <atomic>
#include <doctest/doctest.h>
#include <thread>
#include <vector>

namespace towers {

using Outcome = Milestones::Outcome;
constexpr std::chrono::duration<double> no_time{0};

TEST_CASE("milestones are passed in order, and a failure lasts until a restart") {
    Milestones milestones;
    CHECK(milestones.wait_for(0) == Outcome::passed);
    CHECK(milestones.wait_for(1, no_time) == Outcome::late);
    CHECK(milestones.advance(2));
    CHECK(milestones.wait_for(2) == Outcome::passed);
    CHECK(milestones.wait_for(3, no_time) == Outcome::late);
    milestones.fail();
    CHECK(milestones.has_failed());
    CHECK(milestones.count() == 2);
    CHECK(milestones.wait_for(1) == Outcome::failed); // passed before, but of no use any more
    CHECK_FALSE(milestones.advance(3));
    CHECK(milestones.count() == 2);
    milestones.restart();
    CHECK_FALSE(milestones.has_failed());
    CHECK(milestones.count() == 0);
    CHECK(milestones.advance(1));
}

TEST_CASE("a milestone wakes all who wait for it, and a failure wakes the others") {
    Milestones milestones;
    std::atomic<int> passed = 0, failed = 0;
    {
        std::vector<std::jthread> waiters;
        for (const std::size_t count : {1, 2, 2, 3})
            waiters.emplace_back(
                [&, count] { ++(milestones.wait_for(count) == Outcome::passed ? passed : failed); });
        milestones.advance(1);
        milestones.advance(2);
        while (passed < 3) std::this_thread::yield();
        milestones.fail();
    }
    CHECK(passed == 3);
    CHECK(failed == 1);
}

TEST_CASE("a tower that has failed touches nothing of the others, and starts anew in the next step") {
    TowerProgress progress;
    bool touched = false;
    CHECK(progress.unless_abandoned([&] { touched = true; }));
    CHECK(touched);
    progress.fail();
    CHECK_FALSE(progress.unless_abandoned([] { FAIL("touched"); }));
    progress.restart();
    CHECK(progress.unless_abandoned([] {}));
    CHECK(progress.end.advance(1));
}

TEST_CASE("an abandoned tower has ended what it did among the others, and never starts anew") {
    TowerProgress progress;
    std::atomic<bool> inside = false, touched = false;
    const std::jthread tower([&] {
        progress.unless_abandoned([&] {
            inside = true;
            while (!progress.end.has_failed()) std::this_thread::yield();
            for (int i = 0; i < 100; ++i)
                std::this_thread::yield(); // an abandon() that did not wait would be over
            touched = true;
        });
    });
    while (!inside) std::this_thread::yield();
    progress.abandon();
    CHECK(touched);
    CHECK(progress.is_abandoned());
    progress.restart();
    CHECK(progress.renewal.has_failed());
    CHECK_FALSE(progress.unless_abandoned([] { FAIL("touched"); }));
}

} // namespace towers
