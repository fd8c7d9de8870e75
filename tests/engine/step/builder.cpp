#include "engine/step/builder.h"
#include "engine/recipes/recipe_plan.h"

#include "tests/support/networks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

namespace towers {
namespace {

const char* const two_heads = R"(
[input]
shape = [24, 24, 3]
classes = 10
[network]
layers = [
  { name = "conv1", kind = "conv2d", filters = 4, kernel = 3, stride = 4, activation = "relu" },
  { name = "early", kind = "dense", inputs = ["conv1"], units = 10 },
  { name = "logits", kind = "dense", inputs = ["conv1"], units = 10 },
]
[[loss]]
logits = "logits"
[[loss]]
logits = "early"
weight = 0.3
[pipeline]
kind = "tutorial"
[optimizer]
kind = "sgd"
learning_rate = 0.05
weight_decay = 0.001
[training]
batch = 9
steps = 10
)";

std::vector<std::string> names(const Plan& plan) {
    std::vector<std::string> all;
    for (const Level& level : plan.levels())
        for (const Operation& operation : level) all.push_back(operation.name);
    std::ranges::sort(all);
    return all;
}

/// Tensors of the step's own memory that kernels write.
std::vector<PlannedTensor> results_of(const Plan& plan) {
    std::vector<PlannedTensor> all;
    for (const Level& level : plan.levels())
        for (const Operation& operation : level)
            for (const Plan::Use& use : Plan::uses(operation))
                if (use.writes && plan.at(use.tensor).arena == Arena::results)
                    all.push_back(plan.at(use.tensor));
    std::ranges::sort(all, {}, &PlannedTensor::offset);
    return all;
}

} // namespace

TEST_CASE("a network's outputs need images and no labels; an evaluation adds the losses to them") {
    const Recipe recipe = test::small_recipe();
    const StateLayout layout = layout_of(recipe);
    const Model model = recipe.model.for_evaluation();
    NetworkSpec spec = test::spec_of(recipe, layout, 8, 100);
    spec.model = &model;

    Plan plan;
    const TensorId images = plan.activation("images", {8, model.input.height, model.input.width, 3});
    const TensorId examples = plan.reserve("examples", Arena::step, {8, example_words}, ElementType::uint32);
    const std::vector<TensorId> logits = Builder(plan, spec, false).outputs(images, examples);
    REQUIRE(logits.size() == 1);
    CHECK(plan.elements(logits[0]) == 8 * model.classes);
    finish(plan, spec);
    CHECK_THROWS_AS(plan.find("labels"), std::logic_error);

    std::vector<std::string> expected = names(plan);
    for (const char* name : {"images", "loss", "losses out", "logits out"}) expected.emplace_back(name);
    std::ranges::sort(expected);
    CHECK(names(plan_evaluation(spec)) == expected);
}

TEST_CASE("losses, decays and results of a step lie apart, in whole steps and in micro-batches") {
    const Recipe recipe = parse_recipe("two-heads", two_heads, "two-heads.toml");
    const StateLayout layout = layout_of(recipe);
    for (const unsigned most : {0u, 4u}) {
        CAPTURE(most);
        NetworkSpec spec = test::spec_of(recipe, layout, 9, 100);
        spec.most = most;
        const TrainingPlan training = plan_single_step(spec, test::update_of(recipe, layout));
        std::vector<PlannedTensor> results = results_of(training.plan);
        CHECK(std::erase_if(results, [](const auto& each) { return each.name == "nonfinite"; }) == 1);
        CHECK(training.plan.find("nonfinite").offset ==
              training.plan.find("results").offset); // a word of them
        for (std::size_t i = 0; i < results.size(); ++i) {
            CAPTURE(results[i].name);
            CHECK(results[i].offset + results[i].bytes <= training.plan.bytes(Arena::results));
            if (i > 0) CHECK(results[i].offset >= results[i - 1].offset + results[i - 1].bytes);
        }
        // One list holds both heads' losses of every micro-batch, each word once.
        const PlannedTensor& all = training.plan.find("all losses");
        for (const Plan& plan : training.micro_plans)
            std::ranges::copy(results_of(plan), std::back_inserter(results));
        std::set<std::size_t> words;
        std::size_t written = 0;
        for (const PlannedTensor& each : results) {
            if (!each.name.ends_with("losses")) continue;
            CHECK(each.offset >= all.offset);
            CHECK(each.offset + each.bytes <= all.offset + all.bytes);
            for (std::size_t i = 0; i < each.bytes; i += sizeof(float))
                words.insert(each.offset + i), ++written;
        }
        CHECK(written == 2 * 9);
        CHECK(words.size() == 2 * 9);
    }
}

TEST_CASE("each pass gets its part of the examples, and what it leaves is collected where it left it") {
    const Recipe recipe = parse_recipe("two-heads", two_heads, "two-heads.toml");
    const StateLayout layout = layout_of(recipe);
    NetworkSpec spec = test::spec_of(recipe, layout, 9, 100);
    spec.most = 4; // 3 micro-batches of 3
    const TrainingPlan training = plan_shared_step(spec);
    const PlannedTensor& losses = training.micro_plans[0].find("early losses");
    std::size_t begin = step_examples_offset, collected = 0;
    for (const std::size_t index : training.order) {
        const Plan& plan = training.micro_plans[index];
        if (index == 0) continue; // a pass
        const PlannedTensor& source = plan.find("share's examples");
        CHECK(source.offset == begin);
        begin += source.bytes;
        CHECK(plan.find("examples").offset == training.micro_plans[0].find("examples").offset);
    }
    CHECK(begin == step_examples_offset + 9 * sizeof(Example));
    for (const Plan* plan : {&training.micro_plans[2], &training.micro_plans[3], &training.plan}) {
        for (const Level& level : plan->levels())
            for (const Operation& operation : level)
                if (const auto* copy = std::get_if<PlannedCopy>(&operation.work))
                    collected += operation.name == "losses 1" &&
                                 plan->at(copy->source).arena == losses.arena &&
                                 plan->at(copy->source).offset == losses.offset;
    }
    CHECK(collected == 3);
}

} // namespace towers
