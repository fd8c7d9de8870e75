// Exchanges: values that towers exchange in the middle of a step.
#include "engine/reduce/exchange.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/step/network.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <random>

namespace towers {
namespace {

constexpr std::size_t channels = 5;

/// A tower's side of an exchange, with its own memory.
struct Side {
    std::array<std::vector<float>, 2> given, merged;
    Exchange exchange;

    Side(Merge merge, double values) : exchange{merge, values, {}, {}} {
        for (std::size_t list = 0; list < 2; ++list) {
            given[list].resize(channels);
            merged[list].resize(channels);
            exchange.given[list] = given[list];
            exchange.merged[list] = merged[list];
        }
    }
    Side(Side&&) = default; // the vectors' memory stays where it is
};

std::vector<const Exchange*> all_of(const std::vector<Side>& sides) {
    std::vector<const Exchange*> all;
    for (const Side& side : sides) all.push_back(&side.exchange);
    return all;
}

} // namespace

TEST_CASE("towers that share a batch unevenly get the mean and deviation of all its values") {
    std::mt19937 words(3);
    std::normal_distribution<double> normal;
    std::vector<std::vector<double>> values(channels); // far from zero, so that E[x^2] - mean^2 would fail
    std::vector<Side> sides;
    for (const std::size_t share : {300, 1, 57}) {
        Side side(Merge::moments, double(share));
        for (std::size_t channel = 0; channel < channels; ++channel) {
            std::vector<double> own(share);
            for (double& value : own) value = 1e3 + double(sides.size()) + normal(words);
            double mean = 0, m2 = 0;
            for (const double value : own) mean += value / double(share);
            for (const double value : own) m2 += (value - mean) * (value - mean);
            side.given[0][channel] = float(mean);
            side.given[1][channel] = float(m2);
            values[channel].insert(values[channel].end(), own.begin(), own.end());
        }
        sides.push_back(std::move(side));
    }
    for (const Side& side : sides) merge(all_of(sides), side.exchange);
    for (std::size_t channel = 0; channel < channels; ++channel) {
        double mean = 0, m2 = 0;
        for (const double value : values[channel]) mean += value / double(values[channel].size());
        for (const double value : values[channel]) m2 += (value - mean) * (value - mean);
        CHECK(sides[0].merged[0][channel] == doctest::Approx(mean).epsilon(1e-7));
        CHECK(sides[0].merged[1][channel] == doctest::Approx(m2).epsilon(1e-4));
    }
    for (const Side& side : sides) CHECK(side.merged == sides[0].merged); // to the bit
}

TEST_CASE("denormal numbers count as zero in an exchange") {
    std::vector<Side> sides;
    for (int i = 0; i < 2; ++i) {
        sides.emplace_back(Merge::sum, 4);
        std::ranges::fill(sides.back().given[0], 0x1p-127f); // together the least normal number
    }
    merge(all_of(sides), sides[0].exchange);
    CHECK(sides[0].merged[0] == std::vector<float>(channels, 0));
}

TEST_CASE("a tower's NaN reaches every tower through an exchange") {
    for (const Merge how : {Merge::sum, Merge::moments}) {
        std::vector<Side> sides;
        for (int i = 0; i < 3; ++i) sides.emplace_back(how, 4.0);
        sides[1].given[1][2] = std::nanf("");
        for (const Side& side : sides) {
            merge(all_of(sides), side.exchange);
            CHECK(std::isnan(side.merged[1][2]));
            CHECK(side.merged[1][1] == 0);
        }
    }
}

TEST_CASE("towers of unlike shares meet at the same exchanges in the same order") {
    const Recipe recipe = find_recipe("cifar10-resnet20", {"defaults.batch_norm.group=batch"});
    const StateLayout layout = layout_of(recipe);
    const auto exchanges_with = [&](unsigned share) {
        NetworkSpec spec = test::spec_of(recipe, layout, share, 100);
        spec.global_batch = 1000;
        const TrainingPlan training = plan_shared_step(spec);
        std::vector<std::string> names;
        std::vector<std::size_t> levels;
        for (std::size_t level = 0; level < training.plan.levels().size(); ++level)
            for (const Operation& operation : training.plan.levels()[level])
                if (std::holds_alternative<PlannedExchange>(operation.work)) {
                    names.push_back(operation.name);
                    levels.push_back(level);
                }
        for (const std::size_t level : levels)
            CHECK(std::ranges::find(training.cuts, level, &Cut::level) != training.cuts.end());
        return names;
    };
    const std::vector<std::string> names = exchanges_with(1);
    CHECK(names.size() == 2 * 21); // each batch norm, forward and backward
    for (const unsigned share : {2, 31, 300}) CHECK(exchanges_with(share) == names);
}

} // namespace towers
