// Towers that share a batch give the gradients of the whole batch, in every precision.
#include "engine/execution/operands.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <doctest/doctest.h>
#include <optional>
#include <string>
#include <vector>

namespace towers {
namespace {

/// The state before a step, and the global batch's gradient in that step.
struct TakenStep {
    TrainingState from;
    std::vector<float> gradient;
};

std::vector<TakenStep> first_steps(const Dataset& data, unsigned global, int count) {
    Trainer trainer(test::small_recipe(), test::options_for({"cpu"}, global), data);
    std::vector<TakenStep> steps;
    for (int i = 0; i < count; ++i) {
        steps.push_back({trainer.save(), {}});
        trainer.step();
        steps.back().gradient = trainer.gradients();
    }
    return steps;
}

/// The median distance of the gradients from those of the same steps. The median, because an activation
/// within rounding of zero, or such a gap between two values of a pooling window, changes its step's gradient
/// by 1e-3 whatever the towers do, but a wrong split is wrong in every step.
double gradient_distance(const std::vector<std::string>& towers, const std::vector<double>& shares,
                         const Dataset& data, unsigned global, const std::vector<TakenStep>& steps) {
    TrainerOptions options = test::options_for(towers, global);
    options.shares.weights = shares;
    Trainer trainer(test::small_recipe(), options, data);
    std::vector<double> distances;
    for (const TakenStep& step : steps) {
        trainer.load(step.from);
        trainer.step();
        distances.push_back(test::relative_norm(trainer.gradients(), step.gradient));
    }
    std::sort(distances.begin(), distances.end());
    return distances[distances.size() / 2];
}

/// How far the gradients of a batch may be from those of its parts. Sums in another order differ by float32's
/// rounding, 1e-6 after some layers. In a product whose operands are rounded, such a difference d takes an
/// operand to the other neighbour with a probability of d / spacing, which then is an error of a spacing,
/// twice the rounding: on the root mean square sqrt(2 d rounding). A loss scale moves the operands' exponents
/// only.
double split_tolerance(Precision precision) {
    constexpr double sums = 1e-6;
    return sums + std::sqrt(2 * sums * rounding_of(precision));
}

/// Convolutions and dense layers whose channels all units take. It has no kinks, and its batch norm's sums
/// over all towers differ in their last digits, as do the activations behind it.
Recipe recipe_for_units() {
    return test::smooth_recipe("\"batch\"", R"(
  { name = "wide", kind = "conv2d", filters = 64, kernel = 1, activation = "silu" },
  { name = "conv2", kind = "conv2d", filters = 64, kernel = 3, stride = 2, activation = "silu" },
  { name = "conv3", kind = "conv2d", filters = 32, kernel = 1, activation = "silu" },)");
}

/// Checks the gradients of the first steps, of 14 and 2 examples, against those of all 16 on one tower.
void check_split(const Recipe& recipe, const std::string& id, const OpenOptions& open,
                 const std::optional<LossScale>& scale) {
    const Dataset data = test::noise(50);
    const Precision precision = open.precision;
    TrainerOptions whole = test::options_for({id}, 16);
    whole.open = open;
    whole.loss_scale = scale;
    TrainerOptions split = whole, exact = test::options_for({id}, 16);
    split.towers = {id, id};
    split.shares.weights = {7, 1};
    Trainer one(recipe, whole, data), two(recipe, split, data), plain(recipe, exact, data);
    for (int step = 0; step < 3; ++step) {
        const TrainingState state = one.save();
        two.load(state);
        plain.load(state);
        one.step();
        two.step();
        plain.step();
        CHECK(two.shares() == std::vector<unsigned>{14, 2});
        const std::vector<float> gradients = one.gradients();
        CHECK(test::relative_norm(two.gradients(), gradients) < split_tolerance(precision));
        // Else a tower that does not round would go unnoticed.
        if (precision != Precision::fp32)
            CHECK(test::relative_norm(gradients, plain.gradients()) > split_tolerance(precision));
    }
    for (std::size_t i = 0; i < 2; ++i) {
        const OperandParts parts =
            operand_parts(two.own_tower(i)->session().device(), two.own_tower(i)->plan());
        CHECK(parts.contains(precision));
        if (open.round_operands) CHECK(parts == OperandParts{{precision, 1}});
    }
}

} // namespace

TEST_CASE("any number of towers with any shares gives the single tower's gradient") {
    const Dataset data = test::noise(50);
    const std::vector<TakenStep> steps = first_steps(data, 12, 5);
    const auto distance = [&](const std::vector<std::string>& towers, const std::vector<double>& shares) {
        return gradient_distance(towers, shares, data, 12, steps);
    };
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        CHECK(distance({id}, {}) < 1e-5);
        CHECK(distance({"cpu", id}, {}) < 1e-5);
        CHECK(distance({id, id, "cpu"}, {3, 2, 1}) < 1e-5);
    }
    // More towers than one launch of the averaging kernel takes; most have one example each
    CHECK(distance(std::vector<std::string>(11, "cpu"), {}) < 1e-5);
}

TEST_CASE(
    "a batch split 7:1 over two towers gives the gradients of the whole within the precision's rounding") {
    const Recipe recipe = recipe_for_units();
    for (const std::string& id : test::device_ids())
        for (const Precision precision : all_precisions)
            for (const bool only_rounds : {false, true}) {
                const std::vector<Precision>& units = test::device(id).info().units;
                const bool computes_so =
                    only_rounds ? id == "cpu"
                                : precision == Precision::fp32 || std::ranges::count(units, precision) > 0;
                if (!computes_so) continue;
                INFO("on ", id, " in ", std::string(name_of(precision)),
                     std::string(only_rounds ? ", only rounded" : ""));
                OpenOptions open = test::open_options();
                open.precision = precision;
                open.round_operands = only_rounds;
                check_split(recipe, id, open, first_loss_scale(precision));
                if (precision == Precision::fp16) check_split(recipe, id, open, LossScale{1});
            }
}

} // namespace towers
