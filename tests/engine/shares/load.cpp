#include "engine/shares/load.h"

#include "backends/error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace towers {

namespace {

double brute_force(std::span<const LoadModel> models, unsigned units, unsigned group,
                   std::span<const unsigned> most) {
    if (models.size() == 1) return units * group <= most[0] ? models[0].seconds(units * group) : INFINITY;
    double best = INFINITY;
    for (unsigned first = 0; first <= units && first * group <= most[0]; ++first)
        best =
            std::min(best, std::max(models[0].seconds(first * group),
                                    brute_force(models.subspan(1), units - first, group, most.subspan(1))));
    return best;
}

// The load after `count` steps of these seconds with the share.
void work(TowerLoad& load, unsigned share, double seconds, int count) {
    load.give(share);
    for (int i = 0; i < count; ++i) load.add(seconds);
}

} // namespace

TEST_CASE("balanced shares are optimal") {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> uniform(0, 1);
    for (int round = 0; round < 2000; ++round) {
        const unsigned group = 1 + random() % 4, units = 1 + random() % 20;
        std::vector<LoadModel> models(2 + random() % 2);
        std::vector<unsigned> most;
        for (LoadModel& model : models) {
            const double per_example =
                round % 5 == 0 ? 1 + random() % 2 : 0.01 + uniform(random); // some alike
            model = {random() % 2 ? 10 * uniform(random) : 0, per_example};
            most.push_back(random() % 3 ? 100 : random() % (units * group + 1));
        }
        const double best = brute_force(models, units, group, most);
        if (std::isinf(best)) {
            CHECK_THROWS_AS(balanced_shares(models, units * group, group, most), UsageError);
            continue;
        }
        const std::vector<unsigned> shares = balanced_shares(models, units * group, group, most);
        CHECK(slowest_seconds(models, shares) == best);
        CHECK(std::accumulate(shares.begin(), shares.end(), 0u) == units * group);
        for (std::size_t i = 0; i < shares.size(); ++i) {
            CHECK(shares[i] % group == 0);
            CHECK(shares[i] <= most[i]);
        }
    }
}

TEST_CASE("the first time of a new share does not count, and a single slow step does not matter") {
    TowerLoad load(10);
    CHECK_FALSE(load.warm());
    load.add(50);
    CHECK(load.count() == 0);
    CHECK_FALSE(load.model());
    for (const double seconds : {9.0, 3.0, 3.0, 9.0, 3.0}) load.add(seconds);
    CHECK(load.count() == 5);
    REQUIRE(load.model());
    CHECK(load.model()->seconds(10) == doctest::Approx(3));
    CHECK(load.model()->fixed == 0); // as long as there is one share only
}

TEST_CASE("two shares determine the fixed part, and a change of speed scales all") {
    const LoadModel truth{1, 0.1};
    TowerLoad load(10);
    work(load, 10, truth.seconds(10), 5);
    work(load, 40, truth.seconds(40), 10);
    REQUIRE(load.model());
    CHECK(load.model()->seconds(40) == doctest::Approx(5));
    CHECK(load.model()->fixed == doctest::Approx(1).epsilon(0.05));
    CHECK(load.model()->seconds(10) == doctest::Approx(2).epsilon(0.05));
    CHECK_FALSE(load.add(15));
    CHECK_FALSE(load.add(15));
    CHECK(load.add(15)); // three in a row
    CHECK(load.model()->seconds(40) == doctest::Approx(15));
    CHECK(load.model()->seconds(10) == doctest::Approx(6).epsilon(0.05));
    // A change of speed while the share changes shows in times that no fixed part explains.
    work(load, 20, truth.seconds(20), 4);
    CHECK(load.model()->seconds(20) == doctest::Approx(3));
    CHECK(load.model()->seconds(40) == doctest::Approx(5).epsilon(0.1));
}

} // namespace towers
