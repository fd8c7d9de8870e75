// Fusing operations must save work and not change results.
#include "backends/upload.h"
#include "engine/execution/session.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/step/network.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <map>
#include <string>
#include <string_view>

namespace towers {
namespace {

constexpr unsigned batch = 8;

Recipe recipe_of(const std::string& layers) {
    return parse_recipe("fused",
                        fmt::format("[input]\nshape = [24, 24, 3]\nclasses = 10\n[network]\nlayers = [\n{}\n"
                                    "{{ name = \"logits\", kind = \"dense\", units = 10 }},\n]\n"
                                    "[pipeline]\nkind = \"tutorial\"\n"
                                    "[optimizer]\nkind = \"sgd\"\nlearning_rate = 0.05\n"
                                    "[training]\nbatch = 8\nsteps = 10\n",
                                    layers),
                        "fused.toml");
}

const std::string chain = R"(
  { name = "conv1", kind = "conv2d", filters = 5, kernel = 3, stride = 2, bias = false },
  { name = "bn1", kind = "batch_norm", group = 2, activation = "relu" },
  { kind = "max_pool", window = 3, stride = 2 },
  { name = "conv2", kind = "conv2d", filters = 7, kernel = 3 },
  { name = "bn2", kind = "batch_norm", group = "batch", gamma = false, activation = "relu" },
  { name = "conv3", kind = "conv2d", filters = 6, kernel = 3 },
  { name = "bn3", kind = "batch_norm", group = 4, beta = false, activation = "relu" },)";

const std::string residual = R"(
  { name = "conv1", kind = "conv2d", filters = 8, kernel = 3, stride = 2, bias = false },
  { name = "bn1", kind = "batch_norm", group = 2, activation = "relu" },
  { name = "block", repeat = 2, layers = [
    { name = "conv1", kind = "conv2d", filters = 8, kernel = 3, bias = false },
    { name = "bn1", kind = "batch_norm", group = 2, activation = "relu" },
    { name = "conv2", kind = "conv2d", filters = 8, kernel = 3, bias = false },
    { name = "bn2", kind = "batch_norm", group = 2 },
    { name = "add", kind = "add", inputs = ["bn2", "input"], activation = "relu" },
  ] },
  { kind = "global_average_pool" },)";

/// The sum of two gradients reaches a max pool, and a ReLU's input has another reader.
const std::string forked = R"(
  { name = "conv1", kind = "conv2d", filters = 8, kernel = 3, stride = 2 },
  { name = "bn1", kind = "batch_norm", group = 4 },
  { name = "on", kind = "relu" },
  { name = "pool", kind = "max_pool", window = 3, stride = 2 },
  { name = "left", kind = "conv2d", filters = 8, kernel = 3, activation = "relu" },
  { name = "right", kind = "conv2d", inputs = ["pool"], filters = 8, kernel = 3 },
  { name = "low", kind = "max_pool", inputs = ["bn1"], window = 3, stride = 2 },
  { name = "sum", kind = "add", inputs = ["left", "right", "low"], activation = "relu" },)";

/// Both tensors of the sum are a batch norm's, and one of them comes late.
const std::string projected = R"(
  { name = "conv1", kind = "conv2d", filters = 5, kernel = 3, stride = 2, bias = false },
  { name = "bn1", kind = "batch_norm", group = 2 },
  { name = "conv2", kind = "conv2d", inputs = ["images"], filters = 5, kernel = 1, stride = 2 },
  { name = "bn2", kind = "batch_norm", group = 4 },
  { name = "sum", kind = "add", inputs = ["bn1", "bn2"], activation = "relu" },
  { name = "conv3", kind = "conv2d", filters = 5, kernel = 3 },
  { name = "bn3", kind = "batch_norm", group = 4 },
  { name = "twice", kind = "add", inputs = ["bn3", "bn3"] },
  { name = "last", kind = "add", inputs = ["sum", "twice"] },)";

const std::string networks[] = {chain, residual, forked, projected};

std::map<std::string, unsigned> kernels_of(const Plan& plan) {
    std::map<std::string, unsigned> counts;
    for (const Level& level : plan.levels())
        for (const Operation& operation : level) ++counts[kernel_name(operation)];
    return counts;
}

struct Outcome {
    std::vector<float> state, results; ///< after training steps; of an evaluation after them
    bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(Device& device, const Recipe& recipe, bool fuse) {
    const StateLayout layout = layout_of(recipe);
    const Dataset data = test::noise(2 * batch);
    NetworkSpec spec = test::spec_of(recipe, layout, batch, data.size());
    spec.fuse = fuse;
    const auto run = [&](const Plan& plan, std::vector<float>& state, unsigned steps) {
        Session session(device);
        session.hold(plan.bytes());
        session.load(data);
        const ResidentFeed feed(data);
        session.upload(Arena::state, state);
        session.write(StepNumbers{.learning_rate = 0.05f});
        const Recording recording = session.record(plan);
        std::vector<Example> examples(batch);
        for (unsigned step = 0; step < steps; ++step) {
            for (unsigned i = 0; i < batch; ++i) examples[i] = {.record = step * batch + i};
            feed.bring(examples);
            session.write(examples);
            session.run(recording);
        }
        session.download(Arena::state, state);
        const std::span<float> results = session.host<float>(Arena::staged_results);
        return std::vector<float>(results.begin(), results.end());
    };
    Outcome outcome{initial_state(layout, 5), {}};
    run(plan_single_step(spec, test::update_of(recipe, layout)).plan, outcome.state, 2);
    const Model evaluated = recipe.model.for_evaluation();
    spec.model = &evaluated;
    std::vector<float> state = outcome.state;
    outcome.results = run(plan_evaluation(spec), state, 1);
    return outcome;
}

} // namespace

TEST_CASE("fusing changes no bit of a training step or of an evaluation") {
    for (const std::string& layers : networks) {
        CAPTURE(layers);
        const Recipe recipe = recipe_of(layers);
        for (const std::string& id : test::device_ids()) {
            CAPTURE(id);
            Device& device = test::device(id);
            const Outcome fused = outcome_of(device, recipe, true);
            CHECK(fused == outcome_of(device, recipe, false));
            CHECK(fused.state != initial_state(layout_of(recipe), 5));
            CHECK(fused.results[0] > 0); // the first example's loss
        }
    }
}

TEST_CASE("a ReLU after a batch norm, and a residual sum, need no pass over memory of their own") {
    const auto check = [](const std::string& layers, unsigned forward, unsigned backward, unsigned sums) {
        CAPTURE(layers);
        const Recipe recipe = recipe_of(layers);
        const StateLayout layout = layout_of(recipe);
        const NetworkSpec spec = test::spec_of(recipe, layout, batch, 20);
        auto step = kernels_of(plan_single_step(spec, test::update_of(recipe, layout)).plan);
        CHECK(step["relu_forward"] == forward);
        CHECK(step["relu_backward"] == backward);
        const Model evaluated = recipe.model.for_evaluation();
        NetworkSpec evaluation = spec;
        evaluation.model = &evaluated;
        auto evaluating = kernels_of(plan_evaluation(evaluation));
        CHECK(evaluating["relu_forward"] == forward);
        CHECK(evaluating["add_tensors"] == sums);
    };
    check(chain, 0, 0, 0);
    check(residual, 0, 1, 0); // a pool makes its gradient
    check(forked, 1, 1, 1);
    check(projected, 0, 0, 2); // batch norms make both tensors or none
}

TEST_CASE("a batch norm's backward reads no output, with a ReLU or without") {
    const Recipe recipe = recipe_of(residual);
    const StateLayout layout = layout_of(recipe);
    const Plan plan =
        plan_single_step(test::spec_of(recipe, layout, batch, 20), test::update_of(recipe, layout)).plan;
    unsigned checked = 0;
    for (const Level& level : plan.levels())
        for (const Operation& operation : level) {
            if (!std::string_view(kernel_name(operation)).starts_with("batch_norm_backward")) continue;
            CAPTURE(operation.name);
            unsigned read = 0;
            for (const Plan::Use& use : Plan::uses(operation))
                read += use.reads && plan.tensors()[use.tensor.index()].shape.size() == 4;
            CHECK(read == 2); // the input and the gradient
            ++checked;
        }
    CHECK(checked == 10);
}

} // namespace towers
