// What `bench` proposes: shares and subsets of towers, from measured times.
#include "engine/bench/proposal.h"
#include "backends/error.h"
#include "engine/bench/subset_bench.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <numeric>
#include <random>
#include <span>

namespace towers {
namespace {

using Places = std::vector<std::size_t>;
using Shares = std::vector<unsigned>;

/// The shortest step, in seconds, in which each of these towers has at least one group.
double brute_force(std::span<const LoadModel> towers, unsigned units, unsigned group) {
    if (towers.size() == 1) return towers[0].seconds(units * group);
    double best = INFINITY;
    for (unsigned first = 1; first + towers.size() - 1 <= units; ++first)
        best = std::min(best, std::max(towers[0].seconds(first * group),
                                       brute_force(towers.subspan(1), units - first, group)));
    return best;
}

} // namespace

TEST_CASE("a model of two batch sizes has a fixed part") {
    const LoadPoint points[] = {{128, 0.010 + 128 * 0.001}, {32, 0.010 + 32 * 0.001}};
    const LoadModel model = fit_load(points);
    CHECK(model.fixed == doctest::Approx(0.010).epsilon(0.05));
    CHECK(model.seconds(256) == doctest::Approx(0.266).epsilon(0.01));
    CHECK(fit_load(std::span(points, 1)).seconds(256) == doctest::Approx(0.276));
}

TEST_CASE("the best shares when all towers take part, and when one is alone") {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> uniform(0, 1);
    for (int round = 0; round < 500; ++round) {
        const unsigned group = 1 + random() % 3, units = 3 + random() % 12;
        StepModel model{{}, units * group, group, 0.5 * uniform(random)};
        std::vector<LoadModel> beside;
        for (const char* device : {"a", "b", "c"}) {
            const LoadModel load{random() % 2 ? 5 * uniform(random) : 0, 0.01 + uniform(random)};
            model.towers.push_back({device, 1, load, 0.2 * uniform(random)});
            beside.push_back({load.fixed + model.towers.back().copy_seconds, load.per_example});
        }
        const Subset all = with_best_shares(model, {0, 1, 2});
        CHECK(std::accumulate(all.shares.begin(), all.shares.end(), 0u) == units * group);
        CHECK(std::ranges::all_of(all.shares, [&](unsigned s) { return s > 0 && s % group == 0; }));
        CHECK(predicted_seconds(model, all) ==
              doctest::Approx(brute_force(beside, units, group) + model.beyond_seconds));
        CHECK(predicted_seconds(model, {{1}, {units * group}}) ==
              doctest::Approx(model.towers[1].step.seconds(units * group)));

        const std::vector<Subset> ranked = rank_subsets(model);
        REQUIRE(ranked.size() == 7);
        for (std::size_t i = 1; i < ranked.size(); ++i)
            CHECK(predicted_seconds(model, ranked[i - 1]) <= predicted_seconds(model, ranked[i]));
        CHECK(predicted_seconds(model, propose(model)) ==
              doctest::Approx(predicted_seconds(model, ranked.front())));
    }
}

TEST_CASE("a tower that would slow the step is left out, and all but one if the host costs more") {
    StepModel model{{{"cpu", 1, {0, 0.001}, 0}, {"vulkan:0", 1, {0.15, 0.030}, 0}}, 128, 1, 0};
    CHECK(propose(model) == Subset{{0}, {128}});
    model.global = 512;
    CHECK(propose(model) == Subset{{0, 1}, {501, 11}});
    model.beyond_seconds = 0.012;
    CHECK(propose(model) == Subset{{0}, {512}});
    model.beyond_seconds = 0;
    model.towers[0].copy_seconds = 0.020;
    CHECK(propose(model) == Subset{{0}, {512}});
}

TEST_CASE("towers on one device share what it can do") {
    const LoadModel load{0.001, 0.001};
    StepModel model{{{"cpu", 1, load, 0}, {"cpu", 1, load, 0}, {"gpu", 1, load, 0}}, 100, 1, 0};
    CHECK(predicted_seconds(model, {{0, 1}, {50, 50}}) == doctest::Approx(0.001 + 2 * 50 * 0.001));
    CHECK(predicted_seconds(model, {{0, 2}, {50, 50}}) == doctest::Approx(0.001 + 50 * 0.001));
    for (SoloTower& tower : model.towers) tower.part = 0.5; // one thread of two
    CHECK(predicted_seconds(model, {{0, 1}, {50, 50}}) == doctest::Approx(0.001 + 50 * 0.001));
    const std::vector<Subset> ranked = rank_subsets(model);
    std::vector<Places> towers;
    for (const Subset& subset : ranked) towers.push_back(subset.towers);
    std::ranges::sort(towers);
    CHECK(towers == std::vector<Places>{{0}, {0, 1}, {0, 1, 2}, {0, 2}, {2}}); // {1} equals {0}
}

TEST_CASE("more towers than groups have no shares") {
    const StepModel model{{{"a", 1, {0, 1}, 0}, {"b", 1, {0, 1}, 0}}, 4, 4, 0};
    CHECK_THROWS_AS(with_best_shares(model, {0, 1}), UsageError);
    CHECK(propose(model).shares == Shares{4});
}

TEST_CASE("a device that refuses a subset is asked once, and the others are measured") {
    BenchOptions options{.settings = {.batch = 4, .steps = 1, .seconds = 1, .warm_up = 1, .threads = 1}};
    options.open = test::open_options();
    const Recipe recipe = test::small_recipe();
    const Dataset data = test::noise(20);
    SubsetBench refused({"cpu", "cuda:99"}, {3, 1}), measured({"cpu", "cpu"}, {3, 1});
    for (SubsetBench* bench : {&refused, &measured, &refused, &measured})
        bench->repeat(recipe, options, data);
    REQUIRE(refused.refusal().has_value());
    CHECK(refused.refusal()->find("cuda:99") != std::string::npos);
    CHECK(refused.step_us().empty());
    CHECK_FALSE(measured.refusal().has_value());
    CHECK(measured.step_us().size() == 2);
    CHECK(measured.name() == "cpu,cpu with 3:1 examples");
}

TEST_CASE("up to seven subsets are measured, or the five with the best prediction, and none twice") {
    StepModel model{{}, 64, 1, 0};
    for (const char* device : {"a", "b", "c", "d"}) {
        model.towers.push_back({device, 1, {0, 0.001 * double(model.towers.size() + 1)}, 0});
        const std::size_t subsets = (std::size_t(1) << model.towers.size()) - 1;
        CAPTURE(subsets);
        CHECK(ProposalBench(model, {}, false).benches().size() == 1);
        CHECK(ProposalBench(model, {}, true).benches().size() == (subsets > 7 ? 5 : subsets));
    }
    // The run of all towers is measured already.
    CHECK(ProposalBench(model, propose(model).shares, false).benches().empty());

    ProposalBench bench(model, {1, 1, 1, 61}, true);
    TogetherFigures together{.shares = {1, 1, 1, 61}};
    bench.report(model, {4000}, together);                                       // before any measurement
    CHECK(together.proposal->predicted_examples_per_s == doctest::Approx(2000)); // 64 in 32 ms
    CHECK(together.proposal->predicted_share_of_sum == doctest::Approx(0.5));
    CHECK(together.subsets->size() == 15);
}

} // namespace towers
