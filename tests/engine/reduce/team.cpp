// Threads that share a step's work.
#include "engine/reduce/team.h"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <stdexcept>

namespace towers {
namespace {

constexpr std::size_t items = 100;

/// How often each item was done, by any thread.
struct Counts {
    std::vector<std::atomic<int>> done = std::vector<std::atomic<int>>(items);
    bool all(int count, std::size_t end = items) const {
        return std::all_of(done.begin(), done.begin() + std::ptrdiff_t(end),
                           [&](const auto& each) { return each == count; });
    }
};

} // namespace

TEST_CASE("each item is done once, when it is ready, whatever the number of threads") {
    for (const std::size_t threads : {1u, 2u, 5u, 16u})
        for (const int spin : {0, 50}) {
            CAPTURE(threads);
            Counts counts;
            std::atomic<std::size_t> ready = 0;
            std::atomic<bool> early = false;
            Team team(threads, Milestones::Spin(spin),
                      [&](std::size_t thread, std::size_t item, std::size_t next) {
                          if (item >= ready || thread >= threads || (next != SIZE_MAX && next >= ready))
                              early = true;
                          ++counts.done[item];
                      });
            for (int step = 1; step <= 50; ++step) {
                ready = 0;
                team.begin();
                for (const std::size_t count : {std::size_t(1), std::size_t(1), items / 2, items}) {
                    ready = count;
                    team.release(count);
                }
                team.end();
                REQUIRE(counts.all(step));
            }
            CHECK_FALSE(early);
        }
}

TEST_CASE("a step may have no items, be cancelled, or end before its items are ready") {
    Counts counts;
    Team team(3, Milestones::Spin::zero(),
              [&](std::size_t, std::size_t item, std::size_t) { ++counts.done[item]; });
    team.begin();
    team.end();
    CHECK(counts.all(0));
    team.begin();
    team.end();
    CHECK(counts.all(0));
    team.begin();
    team.cancel();
    team.release(items);
    team.end();
    CHECK(counts.all(0));
    team.begin();
    team.release(10);
    team.end();
    CHECK(counts.all(1, 10));
    CHECK(counts.done[10] == 0);
    team.begin();
    team.release(items);
    team.end();
    CHECK(counts.all(2, 10));
}

TEST_CASE("what an item throws reaches the caller at the end of the step, on whatever thread it was") {
    std::atomic<std::size_t> bad = 0;
    std::atomic<std::size_t> done = 0;
    Team team(4, Milestones::Spin::zero(), [&](std::size_t, std::size_t item, std::size_t) {
        if (item == bad) throw std::runtime_error("it failed");
        ++done;
    });
    for (const std::size_t item : {std::size_t(0), std::size_t(50), items - 1}) {
        bad = item;
        team.begin();
        team.release(items);
        CHECK_THROWS_WITH_AS(team.end(), "it failed", std::runtime_error);
        bad = items;
        done = 0;
        team.begin();
        team.release(items);
        CHECK_NOTHROW(team.end());
        CHECK(done == items);
    }
}

} // namespace towers
