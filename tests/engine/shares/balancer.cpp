#include "engine/shares/balancer.h"

#include "tests/engine/shares/simulated_run.h"

#include "backends/error.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

namespace towers {

using test::even_start;
using Run = test::SimulatedRun;

namespace {

const std::vector<std::vector<double>> unlike = {{1, 1}, {3, 2}, {3, 1}, {10, 1}, {8, 4, 2, 1}};

} // namespace

TEST_CASE("unlike towers soon finish together") {
    for (const double jitter : {0.0, 0.02})
        for (const double fixed : {0.0, 0.3}) {
            double worst = 1;
            for (const auto& relative : unlike)
                for (unsigned seed = 1; seed <= (jitter > 0 ? 50 : 1); ++seed) {
                    Run run = even_start(relative, fixed, jitter, seed);
                    run.steps(30);
                    worst = std::min(worst, run.ratio());
                }
            MESSAGE("unlike: fixed ", fixed, ", jitter ", jitter, ": best / reached ", worst);
            CHECK(worst >= 0.97);
        }
}

TEST_CASE("shares follow a tower's speed, there and back") {
    for (const double fixed : {0.0, 0.3}) {
        double worst = 1, worst_back = 1;
        for (const auto& relative : unlike)
            for (const std::size_t slowed : {std::size_t(0), relative.size() - 1})
                for (unsigned seed = 1; seed <= 30; ++seed) {
                    Run run = even_start(relative, fixed, 0.02, seed);
                    run.steps(100);
                    const LoadModel before = run.truth[slowed];
                    run.truth[slowed] = {3 * before.fixed, 3 * before.per_example};
                    run.steps(20);
                    worst = std::min(worst, run.ratio());
                    run.steps(80);
                    const bool idle = run.best_shares()[slowed] == 0; // comes back only after a new trial
                    run.truth[slowed] = before;
                    run.steps(20);
                    if (!idle) worst_back = std::min(worst_back, run.ratio());
                }
        MESSAGE("adapting: fixed ", fixed, ": slowed ", worst, ", back ", worst_back);
        CHECK(worst >= 0.9);
        CHECK(worst_back >= 0.9);
    }
}

TEST_CASE("jitter and slow steps leave the shares alone") {
    for (const double outliers : {0.0, 0.01})
        for (const double fixed : {0.0, 0.3})
            for (const auto& relative : unlike) {
                unsigned early = 0, late = 0, trials = 0;
                double worst = 1;
                for (unsigned seed = 1; seed <= 10; ++seed) {
                    Run run = even_start(relative, fixed, 0.02, seed);
                    run.outliers = outliers;
                    run.steps(100);
                    early = std::max(early, run.moves);
                    run.moves = run.trials = 0;
                    run.steps(1000);
                    late = std::max(late, run.moves);
                    trials = std::max(trials, run.trials);
                    worst = std::min(worst, run.balancer.trying() ? 1 : run.ratio());
                }
                MESSAGE("calm: towers ", relative.size(), ", first ", relative[0], ", fixed ", fixed,
                        ", slow steps ", outliers, ": moves ", early, ", later ", late, ", trials ", trials,
                        ", best / reached ", worst);
                CHECK(early <= 6);
                CHECK(late <= 3);
                CHECK(trials <= (relative.size() == 2 ? 5u : 8u)); // of two changes each
                CHECK(worst >= 0.97);
            }
}

TEST_CASE("a tower whose times grow in steps does not make the shares fluctuate") {
    unsigned moves = 0;
    double lost = 0;
    for (unsigned seed = 1; seed <= 10; ++seed) {
        Run run = even_start({3, 2}, 0.3, 0.02, seed);
        run.times = [&](const Shares& shares) {
            return std::vector{run.truth[0].seconds((shares[0] + 31) / 32 * 32),
                               run.truth[1].seconds((shares[1] + 31) / 32 * 32)};
        };
        run.steps(2000);
        moves = std::max(moves, run.moves);
        double best = INFINITY;
        for (unsigned n = 0; n <= 256; ++n) best = std::min(best, run.true_step({n, 256 - n}));
        lost = std::max(lost, run.seconds / 2000 / best - 1);
    }
    MESSAGE("stairs of 32 examples: moves ", moves, " in 2000 steps, lost ", lost);
    CHECK(moves <= 20);
    CHECK(lost <= 0.15);
}

TEST_CASE("a tower that is too slow gets no share, is tried from time to time, and comes back") {
    for (const double fixed : {3.0, 20.0}) {
        double lost = 0;
        unsigned longest = 0;
        for (unsigned seed = 1; seed <= 20; ++seed) {
            Run run({{0, 0.01}, {fixed, 0.01}}, 256, 1, 0.02, seed);
            run.steps(100);
            CHECK(run.balancer.shares() == Shares{256, 0});
            REQUIRE(run.balancer.idle(1));
            CHECK(run.balancer.idle(1)->with >= 0.9 * fixed);
            CHECK(run.balancer.idle(1)->without == doctest::Approx(2.56).epsilon(0.02));
            run.seconds = 0;
            run.steps(3000);
            lost = std::max(lost, run.seconds / 3000 / run.best_step() - 1);
            CHECK(run.trials > 0);
            run.truth[1].fixed = 0;
            unsigned steps = 0;
            for (; run.ratio() < 0.95 && steps < 5000; ++steps) run.steps(1);
            longest = std::max(longest, steps);
        }
        MESSAGE("too slow by ", fixed, " s: lost ", lost, ", back after steps ", longest);
        CHECK(lost <= 0.015);
        CHECK(longest <= unsigned(200 * fixed / 2.56) + 250);
    }
}

TEST_CASE("a trial before the first step avoids long steps with a slow tower, and is short otherwise") {
    const auto total = [](double ratio, double fixed, unsigned seed, bool probe, double& best) {
        Run run = even_start({1, 1 / ratio}, fixed, 0.02, seed);
        run.first_factor = 2, run.first_seconds = 0.1; // a step is about 1 s
        best = 20 * run.best_step();
        if (probe) {
            const Shares largest = run.probe();
            CHECK(largest[0] <= 128 / 2);
            if (ratio >= 300) CHECK(largest[1] == 1);
        }
        run.steps(20);
        return run.total;
    };
    for (const double fixed : {0.0, 0.3})
        for (const double ratio : {1.0, 3.0, 30.0, 300.0}) {
            double before = 0, after = 0, best = 0;
            for (unsigned seed = 1; seed <= 20; ++seed) {
                before = std::max(before, total(ratio, fixed, seed, false, best));
                after = std::max(after, total(ratio, fixed, seed, true, best));
            }
            MESSAGE("20 steps at 1:", ratio, ", fixed ", fixed, ": best ", best, " s, begun evenly ", before,
                    " s, after trying ", after, " s");
            const double smallest = ratio * (fixed + (1 - fixed) / 128);
            CHECK(after <= 1.35 * best + 4 * smallest);
            if (ratio > 1) CHECK(after < before);
        }
}

TEST_CASE("towers whose time is mostly fixed also try larger shares, and equal towers stay even") {
    const LoadModel card{0.05, 0.00005}, processor{0.001, 0.001};
    Run unlike_towers({card, processor}, 256, 1, 0, 1);
    unlike_towers.probe();
    CHECK(unlike_towers.ratio() >= 0.9);
    for (unsigned seed = 1; seed <= 50; ++seed) {
        Run alike = even_start({1, 1, 1}, 0.3, 0.03, seed);
        alike.probe();
        CHECK(alike.balancer.shares() == Shares{128, 128, 128});
    }
}

TEST_CASE("a tower that seems a little too slow gets a group, since one time is noisy") {
    for (const double fixed : {3.0, 6.0}) { // alone, the other takes 2.56 s
        Run run({{0, 0.01}, {fixed, 0.01}}, 256, 1, 0, 1);
        run.probe();
        CHECK(run.balancer.shares() == (fixed < 5 ? Shares{255, 1} : Shares{256, 0}));
        run.steps(10);
        CHECK(run.balancer.shares() == Shares{256, 0});
    }
}

TEST_CASE("there is no trial if one group is a large part of a step, or only one tower is left") {
    CHECK(Balancer(64, 32, {32, 32}).probe().empty());
    CHECK(Balancer(128, 32, {64, 64}).probe() == Shares{32, 32});
    Balancer three(96, 1, {32, 32, 32});
    CHECK(three.probe() == Shares{1, 1, 1});
    three.limit(1, 0);
    CHECK(three.probe() == Shares{1, 0, 1});
    three.probed(std::vector<double>{1, 0, 30});
    three.limit(2, 0);
    CHECK(three.probe().empty());
    CHECK(three.shares() == Shares{96, 0, 0});
    Balancer others(96, 1, {32, 32, 32});
    others.limit(1, 0);
    for (int i = 0; i < 2; ++i) others.probed(std::vector<double>{1, 0, 1});
    CHECK(others.probe() == Shares{12, 0, 12});
    for (int i = 0; i < 2; ++i) others.probed(std::vector<double>{12, 0, 12});
    CHECK(others.probe().empty());
    CHECK(others.shares() == Shares{48, 0, 48});
}

TEST_CASE("a tower that gets no share after its probe is tried again only if that costs little") {
    Run run({{0, 0.01}, {20, 0.01}}, 256, 1, 0.02, 1);
    run.probe();
    CHECK(run.balancer.shares() == Shares{256, 0});
    REQUIRE(run.balancer.idle(1));
    CHECK(run.balancer.idle(1)->with == doctest::Approx(20).epsilon(0.1));
    run.steps(1000);
    CHECK(run.trials == 0);
    run.steps(1000);
    CHECK(run.trials == 1);
}

TEST_CASE("a tower that slows another down gets a share only when whole steps are faster with it") {
    // Beside the second tower, the first takes 1.3 times as long.
    for (const bool slow : {true, false}) {
        double lost = 0;
        unsigned right = 0, trials = 0;
        for (unsigned seed = 1; seed <= 50; ++seed) {
            Run run({{0, 0.01}, {0, slow ? 0.1 : 0.0323}}, 256, 1, 0.02, seed);
            run.times = [&](const Shares& shares) {
                return std::vector{run.truth[0].seconds(shares[0]) * (shares[1] > 0 ? 1.3 : 1),
                                   run.truth[1].seconds(shares[1])};
            };
            const double alone = run.true_step({256, 0});
            double best = alone;
            for (unsigned n = 0; n < 256; ++n) best = std::min(best, run.true_step({n, 256 - n}));
            CHECK(best == (slow ? doctest::Approx(alone) : doctest::Approx(alone / 1.08).epsilon(0.005)));
            run.steps(1000);
            lost = std::max(lost, run.seconds / 1000 / best - 1);
            trials = std::max(trials, run.trials);
            right += (run.balancer.shares()[1] == 0) == slow;
        }
        MESSAGE("contention, ", std::string(slow ? "alone" : "together"), " faster: right ", right,
                " of 50, lost ", lost, " of 1000 steps' time, trials ", trials);
        CHECK(right == 50);
        CHECK(lost <= 0.03);
        CHECK(trials <= 4);
    }
}

TEST_CASE("large groups get the best of few splits") {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> uniform(0, 1);
    double worst = 1;
    for (unsigned seed = 1; seed <= 300; ++seed) {
        std::vector<LoadModel> truth;
        for (int i = 0; i < 2; ++i) {
            const double step = std::exp2(4 * uniform(random)), fixed = 0.3 * uniform(random);
            truth.push_back({fixed * step, (1 - fixed) * step / 64});
        }
        Run run(truth, 128, 64, 0.02, seed);
        run.steps(100);
        CHECK(run.balancer.shares()[0] % 64 == 0);
        worst = std::min(worst, run.balancer.trying() ? 1 : run.ratio());
    }
    MESSAGE("groups of 64: best / reached ", worst);
    CHECK(worst >= 0.94);
}

TEST_CASE("unusable times change nothing") {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    for (const double bad : {nan, 0.0, -1.0, double(INFINITY)}) {
        Balancer balancer(256, 1, {128, 128});
        for (int i = 0; i < 100; ++i) CHECK_FALSE(balancer.observe(std::vector{bad, bad}, bad));
        for (int i = 0; i < 100; ++i) { // every other time
            const Shares& shares = balancer.shares();
            const double first = 0.01 * shares[0], second = 0.03 * shares[1];
            balancer.observe(i % 2 ? std::vector{bad, second} : std::vector{first, bad}, i % 3 ? first : bad);
        }
        CHECK(balancer.shares() == Shares{192, 64});
        for (int i = 0; i < 2000; ++i) balancer.observe(std::vector{0.01 * balancer.shares()[0], bad}, bad);
        CHECK(balancer.shares()[0] + balancer.shares()[1] == 256);
    }
}

TEST_CASE("a tower never gets more than it can hold") {
    Run run({{0, 0.01}, {0, 0.03}}, 256, 8, 0.02, 1);
    run.balancer.limit(0, 100); // before anything is known
    CHECK(run.balancer.shares() == Shares{96, 160});
    run.steps(100);
    CHECK(run.balancer.shares() == Shares{96, 160});
    run.balancer.limit(1, 160);
    CHECK_THROWS_AS(run.balancer.limit(1, 159), UsageError);
}

} // namespace towers
