// The built-in recipes against the published facts about their networks.
#include "engine/recipes/recipes.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/train/describe.h"

#include <cmath>
#include <doctest/doctest.h>
#include <map>
#include <numeric>
#include <string>

namespace towers {
namespace {

std::size_t parameters_of(const Recipe& recipe) {
    std::size_t sum = 0;
    for (const LayerDescription& layer : describe_layers(recipe.model)) sum += layer.parameters;
    return sum;
}

/// What weight decay adds to the loss at the start.
double decay_at_start(const Recipe& recipe) {
    double sum = 0;
    for (const VariableSlot& slot : layout_of(recipe).variables) {
        if (slot.weight_decay == 0) continue;
        const std::vector<float> values = initial_values(slot.variable, 1);
        const double squares = std::transform_reduce(values.begin(), values.end(), 0.0, std::plus<>(),
                                                     [](float value) { return double(value) * value; });
        sum += double(slot.weight_decay) * squares / 2;
    }
    return sum;
}

} // namespace

TEST_CASE("every built-in recipe has the published number of parameters") {
    const std::map<std::string, std::size_t> published{
        {"cifar10-tutorial", 1'068'298},   {"cifar10-resnet20", 272'474}, // 0.27 M in the paper
        {"cifar10-fast", 6'573'120},       {"mnist-tutorial", 397'510},       {"mnist-lenet", 1'663'370},
        {"imagenet-resnet18", 11'689'512}, {"imagenet-resnet50", 25'557'032}, {"vgg16-bn", 138'365'992},
        {"mobilenet-v2", 3'504'872},       {"densenet121", 7'978'856},        {"efficientnet-b0", 5'288'548},
        {"inception-v3", 27'145'970},
    };
    CHECK(builtin_recipes().size() == published.size());
    for (const BuiltinRecipe& each : builtin_recipes()) {
        CAPTURE(each.name);
        REQUIRE(published.contains(each.name));
        const Recipe recipe = find_recipe(each.name);
        CHECK(parameters_of(recipe) == published.at(each.name));
        CHECK(recipe.description != "no description");
        CHECK(memory_of_step(recipe, recipe.model.group()).total() > 4 * parameters_of(recipe));
    }
}

TEST_CASE("the tutorial's arithmetic is described as published: 36.9 and 105.3 MFLOP") {
    double forward = 0, backward = 0;
    for (const LayerDescription& layer : describe_layers(find_recipe("cifar10-tutorial").model)) {
        forward += layer.forward_flop;
        backward += layer.backward_flop;
    }
    CHECK(forward / 1e6 == doctest::Approx(36.9).epsilon(0.002));
    CHECK((forward + backward) / 1e6 == doctest::Approx(105.3).epsilon(0.001));
}

TEST_CASE("networks with weight decay begin with the published part of the loss") {
    CHECK(decay_at_start(find_recipe("cifar10-tutorial")) == doctest::Approx(2.1906 + 0.1825).epsilon(0.002));
    CHECK(decay_at_start(find_recipe("mnist-tutorial")) == doctest::Approx(0.1536).epsilon(0.01));
}

TEST_CASE("Inception v3 begins with its published loss: 1.4 ln 1001 + 3.388 = 13.06") {
    const Recipe recipe = find_recipe("inception-v3");
    REQUIRE(recipe.model.heads.size() == 2);
    CHECK(recipe.model.heads[0].weight == 1.0f);
    CHECK(recipe.model.heads[1].weight == 0.4f);
    CHECK(recipe.model.label_offset == 1);
    const double decay = decay_at_start(recipe);
    CHECK(decay == doctest::Approx(3.388).epsilon(0.002));
    CHECK(1.4 * std::log(1001.0) + decay == doctest::Approx(13.06).epsilon(0.001));
}

} // namespace towers
