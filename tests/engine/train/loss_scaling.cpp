// A loss scale changes no bit of what stays in range.
#include "engine/recipes/recipe_plan.h"
#include "engine/train/trainer.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <cstdint>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace towers {
namespace {

/// What a training leaves.
struct Left {
    std::vector<float> losses, state, gradients;
    bool operator==(const Left&) const = default;
};

Left train(const Recipe& recipe, const TrainerOptions& options, const DataSource& data, std::uint64_t steps) {
    Trainer trainer(recipe, options, data);
    Left left;
    for (std::uint64_t i = 1; i <= steps; ++i) left.losses.push_back(trainer.step(i < steps).loss);
    left.gradients = trainer.gradients();
    left.state = trainer.save().state;
    return left;
}

/// Checks that a forced scale changes neither losses nor gradients nor the state.
void check_bits(const Recipe& recipe, TrainerOptions options, const DataSource& data,
                std::uint64_t steps = 5) {
    const Left expected = train(recipe, options, data, steps);
    options.loss_scale = LossScale{0x1p10f};
    const Left scaled = train(recipe, options, data, steps);
    CHECK(scaled.losses == expected.losses);
    CHECK(scaled.gradients == expected.gradients);
    CHECK(scaled.state == expected.state);
}

/// Batch norm, dropout, two heads, and moving averages.
Recipe recipe_with(const std::string& group, const std::string& optimizer) {
    return parse_recipe("heads",
                        fmt::format(R"(
[input]
shape = [24, 24, 3]
classes = 10
[network]
layers = [
  {{ name = "conv", kind = "conv2d", filters = 8, kernel = 3, stride = 2, bias = false }},
  {{ name = "norm", kind = "batch_norm", group = {}, activation = "relu" }},
  {{ name = "pool", kind = "global_average_pool" }},
  {{ name = "early", kind = "dense", inputs = ["pool"], units = 10 }},
  {{ name = "drop", kind = "dropout", keep = 0.8, inputs = ["pool"] }},
  {{ name = "hidden", kind = "dense", units = 12, activation = "silu" }},
  {{ name = "logits", kind = "dense", units = 10, weight_decay = 0.01 }},
]
[[loss]]
logits = "logits"
smoothing = 0.1
[[loss]]
logits = "early"
weight = 0.3
[pipeline]
kind = "tutorial"
[optimizer]
{}
[averages]
decay = 0.9
[training]
batch = 12
steps = 10
)",
                                    group, optimizer),
                        "heads.toml");
}

const std::vector<std::string> optimizers = {
    "kind = \"sgd\"\nlearning_rate = 0.05\nclip_norm = 0.1",
    "kind = \"momentum\"\nlearning_rate = 0.02\nweight_decay = 1e-3\ndecays = \"all\"",
    "kind = \"momentum\"\nnesterov = true\nlearning_rate = 0.02\nclip_norm = 0.5\nweight_decay = 1e-3",
    "kind = \"rmsprop\"\nlearning_rate = 1e-3\nmomentum = 0.9",
    "kind = \"rmsprop\"\nlearning_rate = 0.01\nmomentum = 0.9\nepsilon = 1.0\nepsilon_inside = true",
    "kind = \"adam\"\nlearning_rate = 1e-3",
    "kind = \"adamw\"\nlearning_rate = 1e-3\nweight_decay = 0.1\nclip_norm = 0.5",
};

} // namespace

TEST_CASE("a loss scale changes no bit of a lone tower's training, with any optimizer, clipping and decay") {
    const Dataset data = test::noise(50);
    for (const std::string& optimizer : optimizers) {
        CAPTURE(optimizer);
        for (const std::string& id : test::device_ids()) {
            CAPTURE(id);
            check_bits(recipe_with("4", optimizer), test::options_for({id}, 12), data);
        }
    }
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        check_bits(test::small_recipe(), test::options_for({id}, 12), data); // LRN, pooling, weight decay
    }
}

TEST_CASE("a loss scale changes no bit of a group's training, exchanges and clipping included") {
    const Dataset data = test::noise(50);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        TrainerOptions options = test::options_for({"cpu", id, "cpu"}, 12);
        options.shares.weights = {3, 2, 1};
        for (const std::string& optimizer : optimizers) {
            CAPTURE(optimizer);
            if (id == "cpu" || optimizer == optimizers[2])
                check_bits(recipe_with("\"batch\"", optimizer), options, data);
        }
        options.shares = {};
        options.shares.recorded = {{0, {0, 12, 0}}, {2, {4, 8, 0}}, {3, {12, 0, 0}}};
        check_bits(recipe_with("4", optimizers[2]), options, data);
    }
    check_bits(test::small_recipe(), test::options_for({"cpu", "cpu"}, 12), data);
}

TEST_CASE("a loss scale changes no bit of a training in micro-batches") {
    const Dataset data = test::noise(50);
    for (const std::string& id : test::device_ids())
        for (const std::vector<std::string>& towers :
             {std::vector{id}, std::vector<std::string>{"cpu", id}}) {
            CAPTURE(id);
            CAPTURE(towers.size());
            TrainerOptions options = test::options_for(towers, 20);
            options.micro_batch = 4;
            check_bits(recipe_with("4", optimizers[2]), options, data, 3);
            check_bits(test::small_recipe(), options, data, 3);
        }
}

TEST_CASE("fp16 scales the loss, and other precisions do not") {
    const Dataset data = test::noise(12);
    for (const Precision precision : all_precisions) {
        TrainerOptions options = test::options_for({"cpu"}, 12);
        options.open.precision = precision;
        Trainer trainer(test::small_recipe(), options, data);
        const bool scales = precision == Precision::fp16;
        CHECK(trainer.step().loss_scale == (scales ? std::optional(65536.0f) : std::nullopt));
        CHECK(trainer.save().loss_scale == (scales ? std::optional(LossScale{65536, 1}) : std::nullopt));
    }
}

TEST_CASE("a step without loss scaling has no launch for it, and one with it needs both halves") {
    const Recipe recipe = recipe_with("4", optimizers[2]);
    const StateLayout layout = layout_of(recipe);
    const auto kernels_of = [](const TrainingPlan& training) {
        std::vector<std::string> names;
        for (const Plan* plan : training.plans())
            for (const Level& level : plan->levels())
                for (const Operation& operation : level) names.emplace_back(kernel_name(operation));
        std::ranges::sort(names);
        return names;
    };
    for (const unsigned most : {0u, 4u}) {
        NetworkSpec spec = test::spec_of(recipe, layout, 12, 50), scaled = spec;
        spec.most = scaled.most = most;
        scaled.scales_loss = true;
        UpdateSpec update = test::update_of(recipe, layout), unscales = update;
        unscales.scales_loss = true;
        std::vector<std::string> expected = kernels_of(plan_single_step(spec, update));
        for (const char* const none : {"unscale_gradients", "multiply"})
            CHECK(std::ranges::count(expected, none) == 0);
        expected.insert(expected.end(), {"multiply", "multiply", "unscale_gradients"}); // for two heads
        if (most > 0) expected.emplace_back("copy"); // of the step's numbers to the pass
        std::ranges::sort(expected);
        CHECK(kernels_of(plan_single_step(scaled, unscales)) == expected);
        CHECK_THROWS_AS(plan_single_step(scaled, update), std::logic_error);
        CHECK_THROWS_AS(plan_step_alone(spec, unscales), std::logic_error);
    }
}

} // namespace towers
