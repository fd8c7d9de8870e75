#include "engine/train/assignment.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fmt/format.h>

namespace towers {
namespace {

using Shares = std::vector<unsigned>;

/// Towers that take as long as their models say: time is virtual.
struct Run {
    std::vector<LoadModel> truth;
    Assignment assignment;
    std::uint64_t step = 0;

    std::vector<SeenTower> seen(const Shares& shares) const {
        std::vector<SeenTower> towers;
        for (std::size_t i = 0; i < truth.size(); ++i)
            towers.push_back({shares[i], truth[i].seconds(shares[i])});
        return towers;
    }
    std::string probe() {
        for (Shares tried; !(tried = assignment.probe()).empty();) assignment.probed(seen(tried));
        return assignment.begin(seen(assignment.shares(step)));
    }
    std::string take_step(bool repeated = false) {
        const std::vector<SeenTower> towers = seen(assignment.shares(step));
        const double seconds = std::ranges::max(towers, {}, &SeenTower::seconds).seconds;
        return assignment.observe(step++, towers, 1.01 * seconds, repeated);
    }
};

SharePolicy automatic() { return {.automatic = true, .weights = {}, .recorded = {}}; }

template<class Error>
TowerFailed failure(std::size_t tower, unsigned share = 0) {
    const Error error("refused");
    return {error, std::make_exception_ptr(error), tower, share};
}

} // namespace

TEST_CASE("the user is told the shares that a trial gives, and each change from then on") {
    Run run{{{4e-3, 4e-4}, {8e-3, 16e-4}}, {automatic(), {"fast", "slow"}, 100, 1, false}};
    CHECK(run.assignment.shares(0) == Shares{50, 50});
    const std::string notice = run.probe();
    CHECK(notice == "a short trial of each tower gives shares of " + to_string(run.assignment.shares(0)));
    for (int i = 0; i < 30; ++i) {
        const Shares before = run.assignment.shares(run.step);
        const std::string change = run.take_step();
        const Shares after = run.assignment.shares(run.step);
        CHECK(change == (before == after ? ""
                                         : fmt::format("shares are {} from step {} on, before {}",
                                                       to_string(after), run.step, to_string(before))));
    }
    const double slowest = slowest_seconds(run.truth, run.assignment.shares(run.step));
    CHECK(slowest < 1.02 * slowest_seconds(run.truth, balanced_shares(run.truth, 100, 1, Shares{100, 100})));
}

TEST_CASE("a tower that slows the others down gets nothing to do, and the user is told why") {
    Run run{{{1e-3, 5e-5}, {40e-3, 1e-4}}, {automatic(), {"fast", "slow"}, 100, 1, false}};
    std::string notices = run.probe();
    for (int i = 0; i < 30; ++i) notices += run.take_step();
    CHECK(run.assignment.shares(run.step) == Shares{100, 0});
    CAPTURE(notices);
    CHECK(notices.find("; tower_1 (slow) gets nothing to do: a ") != std::string::npos);
}

TEST_CASE("the times of a step that was repeated decide nothing") {
    Run run{{{0, 1e-3}, {0, 9e-3}}, {automatic(), {"fast", "slow"}, 100, 1, false}};
    for (int i = 0; i < 30; ++i) CHECK(run.take_step(true).empty());
    CHECK(run.assignment.shares(run.step) == Shares{50, 50});
    std::string notices;
    for (int i = 0; i < 30; ++i) notices += run.take_step();
    CHECK_FALSE(notices.empty());
}

TEST_CASE("shares that another run recorded are taken step by step, and tried by nobody") {
    const Assignment assignment({.automatic = false, .weights = {}, .recorded = {{0, {6, 2}}, {3, {8, 0}}}},
                                {"a", "b"}, 8, 1, false);
    CHECK(assignment.probe().empty());
    CHECK(assignment.shares(2) == Shares{6, 2});
    CHECK(assignment.shares(3) == Shares{8, 0});
    const Assignment on({.automatic = true, .weights = {}, .recorded = {{0, {600, 200}}}}, {"a", "b"}, 800, 1,
                        false);
    CHECK(on.probe().empty());
    CHECK(on.shares(0) == Shares{600, 200});
}

TEST_CASE("recorded micro-batches are taken with the shares that they are recorded with, and no others") {
    using Taken = std::vector<Share>;
    Assignment assignment(
        {.automatic = false,
         .weights = {},
         .recorded = {{0, {6, 2}, {2, 1}}, {3, {8, 0}, {4, 0}}, {5, {6, 2}, {3, 1}}, {7, {4, 4}}}},
        {"a", "b"}, 8, 1, true);
    CHECK(assignment.to_take(2) == Taken{{6, 2}, {2, 1}});
    CHECK(assignment.to_take(4) == Taken{{8, 4, true}, {0, 0}});
    CHECK(assignment.to_take(6) == Taken{{6, 3}, {2, 1}});
    CHECK(assignment.to_take(8) == Taken{{4, 0}, {4, 0}}); // an early version's
    assignment.drop(failure<DeviceLost>(1));
    CHECK(assignment.to_take(2) == Taken{{8, 0, true}, {0, 0}});

    Run run{{{0, 1e-3}, {0, 9e-3}},
            {{.automatic = true, .weights = {}, .recorded = {{40, {50, 50}, {2, 1}}}},
             {"a", "b"},
             100,
             1,
             false}};
    CHECK(run.assignment.to_take(40) == Taken{{50, 2}, {50, 1}});
    for (int i = 0; i < 30; ++i) run.take_step();
    CHECK(run.assignment.to_take(70)[0].examples > 80);
    CHECK(run.assignment.to_take(70)[0].micro_batches == 0);
}

TEST_CASE("the others take a lost tower's examples, unless the run is not to outlive it") {
    for (const bool balanced : {false, true}) {
        const SharePolicy policy = balanced ? automatic() : SharePolicy{};
        Assignment assignment(policy, {"a", "b", "c"}, 12, 2, true);
        CHECK(assignment.drop(failure<DeviceError>(1)) ==
              "tower_1 (b) failed and is dropped, and the others repeat the step: refused");
        CHECK(assignment.shares(0) == Shares{6, 0, 6});
        CHECK(assignment.drop(failure<DeviceLost>(0)) == "tower_0 (a) failed and is dropped, and the others "
                                                         "repeat the step: refused; if it is lost again, "
                                                         "try a smaller --micro-batch");
        CHECK(assignment.shares(0) == Shares{0, 0, 12});
        CHECK_THROWS_AS(assignment.drop(failure<OutOfMemory>(2)), OutOfMemory); // the last one
        Assignment strict(policy, {"a", "b", "c"}, 12, 2, false);
        CHECK_THROWS_AS(strict.drop(failure<DeviceLost>(1)), DeviceLost);
    }
}

TEST_CASE("a tower that cannot take a larger share than it had gets one in between") {
    Run run{{{0, 1e-3}, {0, 1e-3}}, {automatic(), {"a", "b"}, 100, 5, true}};
    run.take_step(); // 50 each
    CHECK(run.assignment.drop(failure<OutOfMemory>(0, 75)) == "tower_0 (a) cannot take 75 examples: refused");
    run.truth[0].per_example = 1e-4; // would get nearly all
    for (int i = 0; i < 100; ++i) {
        run.take_step();
        CHECK(run.assignment.shares(run.step)[0] <= 60); // whole groups
    }
    CHECK(run.assignment.shares(run.step)[0] == 60);
    CHECK_THROWS_WITH_AS(run.assignment.drop(failure<DeviceError>(1)),
                         doctest::Contains("refused; without that, "), DeviceError); // 60 is no whole batch
}

TEST_CASE("the user is told when memory makes a tower take its share in other pieces") {
    Assignment assignment({}, {"a", "b"}, 16, 1, false);
    std::vector<SeenTower> towers{{8, 1e-3, {}}, {8, 1e-3, {2, 4, "memory is short"}}};
    CHECK(assignment.begin(towers).empty()); // told before the first step
    CHECK(assignment.observe(0, towers, 1e-3, false).empty());
    towers[1].at_once = {4, 2, "memory is short"};
    towers[0].at_once = {2, 4, ""}; // as the user asks
    CHECK(assignment.observe(1, towers, 1e-3, false) ==
          "tower_1 (b): 4 micro-batches of up to 2 examples, because memory is short");
    CHECK(assignment.observe(2, towers, 1e-3, false).empty());
    towers[1].at_once.recorded = 2;
    CHECK(
        assignment.observe(3, towers, 1e-3, false) ==
        "tower_1 (b): 4 micro-batches of up to 2 examples, because memory is short; 2 were recorded, so the "
        "last bits of the results change");
    CHECK(assignment.observe(4, towers, 1e-3, false).empty());
}

} // namespace towers
