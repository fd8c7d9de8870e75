#include "engine/shares/trials.h"

#include <doctest/doctest.h>

namespace towers {

namespace {

/// Trials of two towers that have settled; `seconds` of each, and of a whole step, for any shares.
struct Bench {
    Standings standings;
    Trials trials{2};
    Follower follower;
    std::optional<Shares> better; ///< what the last judgement returned

    explicit Bench(Shares start) : standings(256, 1, std::move(start)) {}

    void steps(unsigned count, const std::vector<double>& seconds, double step) {
        for (; count > 0; --count) {
            standings.add(seconds, step);
            trials.step_taken();
            if (trials.running())
                better = trials.judge(standings, follower);
            else
                trials.start(standings);
        }
    }
};

} // namespace

TEST_CASE("a tower that adds little is left out for good only when whole steps are faster without it") {
    for (const bool faster : {true, false}) {
        Bench bench({240, 16});
        bench.steps(31, {2.4, 2.4}, 2.4); // the first one records, the 30 that follow count
        REQUIRE(bench.trials.running());
        CHECK(bench.standings.now.shares == Shares{256, 0});
        bench.steps(3, {2, 0}, faster ? 2 : 2.36); // the first one records
        CHECK(bench.trials.running());
        bench.steps(1, {2, 0}, faster ? 2 : 2.36);
        CHECK_FALSE(bench.trials.running());
        CHECK(bench.standings.now.shares == (faster ? Shares{256, 0} : Shares{240, 16}));
        REQUIRE(bench.standings.shut_out[1].has_value() == faster);
        if (faster) {
            CHECK(bench.standings.shut_out[1]->with == 2.4);
            CHECK(bench.standings.shut_out[1]->without == 2);
        }
        CHECK_FALSE(bench.better);
    }
}

TEST_CASE("a tower that hardly adds anything is judged by more steps, and leaves for a smaller gain") {
    for (const double without : {0.98, 0.995}) {
        Bench bench({252, 4}); // a step without it should take 1.6 % longer
        bench.steps(31, {2.52, 2.52}, 2.52);
        REQUIRE(bench.standings.now.shares == Shares{256, 0});
        bench.steps(9, {2.52 * without, 0}, 2.52 * without); // the first one records
        CHECK(bench.trials.running());
        bench.steps(1, {2.52 * without, 0}, 2.52 * without);
        CHECK_FALSE(bench.trials.running());
        CHECK(bench.standings.shut_out[1].has_value() == (without < 0.984));
    }
}

TEST_CASE(
    "a tower without a share rests, is tried with one group, and gets a share only when that is worth it") {
    for (const bool fast : {true, false}) {
        Bench bench({255, 1});
        bench.steps(5, {2.55, 30}, 30);
        bench.standings.give({256, 0});
        bench.trials.rest(bench.standings, 1);
        unsigned rested = 0;
        for (; !bench.trials.running() && rested < 5000; ++rested) bench.steps(1, {2.56, 0}, 2.56);
        CHECK(rested == doctest::Approx(100 * 2 * (30 - 2.56) / 2.56).epsilon(0.01)); // the trial takes 1 %
        CHECK(bench.standings.now.shares == Shares{255, 1});
        bench.steps(1, {2.55, fast ? 0.01 : 30}, 30);
        CHECK(bench.trials.running() == fast); // one time is not enough for a share, but for none
        if (fast) bench.steps(1, {2.55, 0.01}, 2.55);
        CHECK_FALSE(bench.trials.running());
        CHECK(bench.better.has_value() == fast);
        CHECK(bench.standings.now.shares == Shares{256, 0}); // the caller moves
    }
}

TEST_CASE("a trial that is cancelled leaves the shares and times from before") {
    Bench bench({240, 16});
    bench.steps(31, {2.4, 2.4}, 2.4);
    REQUIRE(bench.trials.running());
    bench.trials.cancel(bench.standings);
    CHECK_FALSE(bench.trials.running());
    CHECK(bench.standings.now.shares == Shares{240, 16});
    CHECK(bench.standings.now.steps.size() == 30);
}

TEST_CASE("a trial without usable times ends after 20 steps") {
    Bench bench({240, 16});
    bench.steps(31, {2.4, 2.4}, 2.4);
    REQUIRE(bench.trials.running());
    bench.steps(19, {0, 0}, 0);
    CHECK(bench.trials.running());
    bench.steps(1, {0, 0}, 0);
    CHECK_FALSE(bench.trials.running());
    CHECK(bench.standings.now.shares == Shares{240, 16});
}

} // namespace towers
