#include "engine/shares/follower.h"

#include <doctest/doctest.h>

namespace towers {

namespace {

/// After so many steps with the present shares, towers of these seconds per example.
void take_steps(Standings& standings, unsigned count, std::vector<double> seconds) {
    for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] *= standings.now.shares[i];
    for (; count > 0; --count) standings.add(seconds, 1);
}

} // namespace

TEST_CASE("a move needs two times of each tower, and a smaller gain the more there are") {
    Standings standings(64, 1, {32, 32});
    const Follower follower;
    take_steps(standings, 2, {1, 3}); // the first records
    CHECK_FALSE(follower.better(standings));
    take_steps(standings, 1, {1, 3});
    CHECK(follower.better(standings) == Shares{48, 16});

    Standings nearly(64, 1, {32, 32});
    take_steps(nearly, 3, {1, 1.08});
    CHECK_FALSE(follower.better(nearly));
    take_steps(nearly, 30, {1, 1.08});
    CHECK(follower.better(nearly) == Shares{33, 31});
}

TEST_CASE("each of many moves makes the next one harder, until they are forgotten or a speed changes") {
    Follower follower;
    const double free = follower.needed_gain(10);
    for (int i = 0; i < 4; ++i) follower.moved();
    CHECK(follower.needed_gain(10) == free);
    follower.moved();
    follower.moved();
    CHECK(follower.needed_gain(40) == doctest::Approx(free)); // four times the steps
    for (int i = 0; i < 399; ++i) follower.step_taken(false);
    CHECK(follower.needed_gain(40) == doctest::Approx(free));
    follower.step_taken(false);
    CHECK(follower.needed_gain(20) == doctest::Approx(free));
    follower.step_taken(true);
    CHECK(follower.needed_gain(10) == free);
}

} // namespace towers
