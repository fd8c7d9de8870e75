// Kernels work in device memory; copies bring what the host writes and take what it reads.
#include "engine/recipes/recipe_plan.h"
#include "engine/recipes/recipes.h"
#include "engine/step/histograms.h"

#include <doctest/doctest.h>
#include <functional>
#include <stdexcept>
#include <string>
#include <variant>

namespace towers {
namespace {

using Visit = std::function<void(const Plan& plan, const std::string& what)>;

void for_each_plan(const TrainingPlan& training, const std::string& what, const Visit& visit) {
    for (const Plan& plan : training.micro_plans) visit(plan, what + ", before its end");
    visit(training.plan, what);
}

/// Every kind of plan that runs on a device, of a recipe.
void for_each_plan(const Recipe& recipe, const Visit& visit) {
    const StateLayout layout = layout_of(recipe);
    const unsigned group = recipe.model.group(), batch = 3 * group;
    const auto& [height, width, channels] = recipe.model.input;
    NetworkSpec spec = network_spec(
        recipe, layout,
        {.batch = batch, .stored = {height, width, channels}, .slots = 2 * batch, .distort = true});
    for (const bool first : {false, true}) {
        UpdateSpec update = update_spec(recipe, layout);
        update.average_first = first;
        for_each_plan(plan_single_step(spec, update), "a step", visit);
        for_each_plan(plan_step_alone(spec, update), "a step of one that has all examples", visit);
    }
    const StateLayout block = layout_of_block(layout, make_blocks(layout, layout.trained(), 1 << 16).front());
    UpdateSpec update = update_spec(recipe, layout);
    update.layout = &block;
    Plan of_block;
    plan_update(of_block, update, {});
    of_block.place();
    visit(of_block, "the host's update of a block");
    NetworkSpec shared = spec;
    shared.global_batch = 2 * batch;
    shared.staged = true;
    for_each_plan(plan_shared_step(shared), "a shared step", visit);
    if (recipe.model.joining_layer() == nullptr) {
        spec.most = 2 * group; // then one of one group
        for_each_plan(plan_single_step(spec, update_spec(recipe, layout)), "micro-batches", visit);
    }
    const Model evaluated = recipe.model.for_evaluation();
    spec.model = &evaluated;
    spec.distort = false;
    visit(plan_evaluation(spec), "an evaluation");
    visit(plan_activation_histograms(spec).plan, "histograms of activations");
    visit(plan_state_histograms(layout).plan, "histograms of the state");
}

} // namespace

TEST_CASE("in no plan of any recipe does a kernel reach staging memory, and one copy brings a step's block") {
    for (const BuiltinRecipe& each : builtin_recipes())
        for_each_plan(find_recipe(each.name), [&](const Plan& plan, const std::string& what) {
            INFO(std::string(each.name), ": ", what);
            std::size_t reaching = 0, brought = 0, used = 0;
            for (const Level& level : plan.levels())
                for (const Operation& operation : level)
                    for (const Plan::Use& use : Plan::uses(operation)) {
                        const Arena arena = plan.at(use.tensor).arena;
                        const bool launches = std::holds_alternative<Launch>(operation.work);
                        reaching += launches && is_staging(arena);
                        used += launches && arena == Arena::step;
                        brought += !launches && use.writes && arena == Arena::step;
                    }
            CHECK(reaching == 0);
            CHECK(brought == (used > 0 ? 1 : 0));
        });
}

TEST_CASE("a plan whose kernel would reach staging memory is a mistake") {
    Plan plan;
    const TensorId written = plan.reserve("written by the host", Arena::staged_results, {16});
    plan.add("relu", kernels::relu_forward, {.x = written, .y = plan.activation("y", {16}), .count = 16});
    CHECK_THROWS_WITH_AS(plan.place(),
                         "plan: 'relu' lets relu_forward reach staging memory: written by the host",
                         std::logic_error);
}

} // namespace towers
