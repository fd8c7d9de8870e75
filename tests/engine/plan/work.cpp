// Checks the counts of work behind the benchmark's rates against numbers computed by hand.
#include "engine/plan/work.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/step/network.h"
#include "tests/support/networks.h"

#include <doctest/doctest.h>

namespace towers {
namespace {

/// The tutorial's step at this batch.
struct TutorialStep {
    Recipe recipe = find_recipe("cifar10-tutorial");
    StateLayout layout = layout_of(recipe);
    Plan plan;

    explicit TutorialStep(unsigned batch)
        : plan(plan_single_step(test::spec_of(recipe, layout, batch, 10), test::update_of(recipe, layout))
                   .plan) {}

    template<class Function>
    void for_each_operation(const Function& function) const {
        for (const Level& level : plan.levels())
            for (const Operation& operation : level) function(operation.name, cost_of(operation, plan));
    }
};

} // namespace

TEST_CASE("the tutorial's network takes 36.9 MFLOP an image forward and 105.3 with backward") {
    // conv1: 24 * 24 pixels, 5 * 5 * 3 inputs, 64 outputs; conv2: 12 * 12, 5 * 5 * 64, 64; then 2304 x 384,
    // 384 x 192 and 192 x 10. Backward takes twice that, except that the images need no gradient.
    const double conv1 = 2.0 * 576 * 75 * 64, conv2 = 2.0 * 144 * 1600 * 64;
    const double dense = 2.0 * (2304 * 384 + 384 * 192 + 192 * 10);
    const double forward = conv1 + conv2 + dense;
    CHECK(forward / 1e6 == doctest::Approx(36.9).epsilon(0.002));
    CHECK((3 * forward - conv1) / 1e6 == doctest::Approx(105.3).epsilon(0.001));
    constexpr unsigned batch = 6;
    double all = 0, forward_only = 0;
    TutorialStep(batch).for_each_operation([&](const std::string& name, const Cost& cost) {
        all += cost.flops;
        if (name.ends_with(" forward")) forward_only += cost.flops;
    });
    CHECK(forward_only == batch * forward);
    CHECK(all == batch * (3 * forward - conv1));
}

TEST_CASE("every operation of a step moves bytes; the tutorial's match counts by hand") {
    const TutorialStep step(2);
    const double parameters = double(step.layout.trained_bytes);                 // a multiple of 16
    const double conv1_map = 2.0 * 24 * 24 * 64, pool1_map = 2.0 * 12 * 12 * 64; // elements of a batch of 2
    std::size_t known = 0;
    const auto by_hand = [&](const std::string& name) -> double {
        // The image, the example and its label; the records' own bytes are not counted.
        if (name == "images") return 2 * (24 * 24 * 3 * 4 + 16 + 4);
        if (name == "conv1 forward") return 4 * (2.0 * 24 * 24 * 3 + 75 * 64 + 64 + conv1_map);
        if (name == "conv2 data gradient") return 4 * (pool1_map + 1600 * 64 + 2 * pool1_map);
        if (name == "conv2 weights gradient") return 4 * (pool1_map + pool1_map + 1600 * 64 + 64);
        if (name == "pool1 forward") return 4 * (conv1_map + pool1_map) + pool1_map;
        if (name == "pool1 backward") return 4 * (conv1_map + pool1_map) + pool1_map;
        if (name == "norm1 forward") return 4 * 3 * pool1_map;
        if (name == "norm1 backward") return 4 * 5 * pool1_map;
        if (name == "loss") return 4 * 2 * (2 * 10 + 3);
        if (name == "update") return 3 * parameters + 4 * (STEP_FLOATS + RESULT_FLOATS);
        if (name == "finite check") return parameters + 4 + 4;
        if (name == "local4/weights decay") return 3 * 4.0 * 384 * 192 + 4 * REDUCTION_CHUNKS(384u * 192 / 4);
        return 0;
    };
    step.for_each_operation([&](const std::string& name, const Cost& cost) {
        CAPTURE(name);
        CHECK(cost.bytes > 0);
        if (const double expected = by_hand(name); expected > 0) {
            CHECK(cost.bytes == expected);
            ++known;
        }
    });
    CHECK(known == 12);
}

TEST_CASE("groups divide a convolution's work, in the benchmark as in the description of a recipe") {
    const Recipe recipe = parse_recipe("groups", R"(
        input = { shape = [24, 24, 3], classes = 10 }
        pipeline = { kind = "tutorial" }
        optimizer = { kind = "sgd", learning_rate = 0.1 }
        training = { batch = 4, steps = 1 }
        [network]
        layers = [
          { kind = "conv2d", filters = 8, kernel = 3 },
          { kind = "conv2d", filters = 8, kernel = 3, groups = 2 },
          { kind = "conv2d", groups = "depthwise", kernel = 3 },
          { kind = "dense", units = 10 },
        ])",
                                       "groups.toml");
    double expected = 0, measured = 0;
    for (const Node& node : recipe.model.nodes)
        expected += 4 * node.layer->flop(recipe.model.input_shapes(node));
    const StateLayout layout = layout_of(recipe);
    const Plan plan =
        plan_single_step(test::spec_of(recipe, layout, 4, 10), test::update_of(recipe, layout)).plan;
    for (const Level& level : plan.levels())
        for (const Operation& operation : level)
            if (operation.name.ends_with(" forward")) measured += cost_of(operation, plan).flops;
    CHECK(measured == expected);
}

} // namespace towers
