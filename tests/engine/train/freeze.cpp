// Variables that training leaves as they are, and runs that start from another model's variables.
#include "engine/model/freeze.h"
#include "backends/error.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/train/initial.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace towers {
namespace {

/// A network with every kind of layer that has variables. No biases come before a batch norm: their gradients
/// would be zero but for rounding.
Recipe recipe_of(const std::string& optimizer, unsigned classes = 10) {
    return parse_recipe("frozen",
                        fmt::format(R"(
[input]
shape = [24, 24, 3]
classes = {}
[network]
layers = [
  {{ name = "conv1", kind = "conv2d", filters = 8, kernel = 3, stride = 4, bias = false }},
  {{ name = "norm1", kind = "batch_norm", group = 2, activation = "silu" }},
  {{ name = "conv2", kind = "conv2d", kernel = 3, groups = "depthwise", bias = false }},
  {{ name = "norm2", kind = "batch_norm", group = 2, activation = "relu" }},
  {{ name = "conv3", kind = "conv2d", filters = 8, kernel = 1 }},
  {{ name = "norm3", kind = "layer_norm" }},
  {{ name = "sum", kind = "add", inputs = ["norm3", "norm2"] }},
  {{ kind = "global_average_pool" }},
  {{ name = "logits", kind = "dense", units = "$classes" }},
]
[pipeline]
kind = "tutorial"
[averages]
decay = 0.9
[optimizer]
{}
learning_rate = 0.02
weight_decay = 0.01
[training]
batch = 12
steps = 10
)",
                                    classes, optimizer),
                        "frozen.toml");
}

Recipe frozen(Recipe recipe, const std::vector<std::string>& patterns) {
    freeze(recipe.model, patterns);
    return recipe;
}

std::vector<float> values(const StateLayout& layout, const std::string& name, std::span<const float> state) {
    const std::vector<StateSlot> slots = layout.slots();
    const auto slot = std::ranges::find(slots, name, &StateSlot::name);
    REQUIRE(slot != slots.end());
    const auto found = part(state, slot->range);
    return {found.begin(), found.end()};
}

/// A state with the values of another one of the same recipe, other variables of which are frozen.
TrainingState moved(const TrainingState& from, const StateLayout& layout, const StateLayout& to) {
    TrainingState state{.step = from.step, .examples = from.examples, .state = initial_state(to, 0)};
    for (const StateSlot& slot : to.slots())
        std::ranges::copy(values(layout, slot.name, from.state),
                          part(std::span(state.state), slot.range).begin());
    return state;
}

std::set<std::string> operations(const Recipe& recipe) {
    const StateLayout layout = layout_of(recipe);
    const TrainingPlan training =
        plan_single_step(test::spec_of(recipe, layout, 4, 4), test::update_of(recipe, layout));
    std::set<std::string> names;
    for (const Level& level : training.plan.levels())
        for (const Operation& operation : level) names.insert(operation.name);
    return names;
}

const std::vector<std::vector<std::string>> choices{
    {"conv1/*"},                       // but its batch norm follows the activations
    {"conv1/*", "norm1/*", "c*2/*"},   // a beginning of the network
    {"norm*"},                         // statistics in the middle
    {"*/moving_*"},                    // only they
    {"*/weights"},                     // only biases, gammas and betas learn
    {"*/biases", "*/gamma", "*/beta"}, // only weights learn
    {"conv*", "norm*"},                // all but the last layer
};

} // namespace

TEST_CASE("frozen variables keep their bits, and the others' gradients do not change") {
    const Dataset data = test::noise(50);
    const std::vector<std::string> optimizers{"kind = \"momentum\"", "kind = \"adamw\"", "kind = \"sgd\"",
                                              "kind = \"momentum\"\nclip_norm = 1"};
    for (std::size_t i = 0; i < choices.size(); ++i) {
        const auto& patterns = choices[i];
        const std::string& optimizer = optimizers[i % optimizers.size()];
        INFO(optimizer, ", ", patterns[0]);
        const Recipe whole = recipe_of(optimizer), part_of = frozen(whole, patterns);
        const bool clips = whole.optimizer->clip_norm.has_value();
        Trainer usual(whole, test::options_for({"cpu"}, 12), data);
        usual.step(); // so that moving statistics are not the initial ones
        const TrainingState begin = usual.save();
        usual.step();
        const std::vector<float> expected = usual.gradients();
        std::vector<std::vector<float>> ends;
        for (const auto& [count, micro_batch] : {std::pair{1u, 0u}, {1u, 4u}, {2u, 0u}, {2u, 2u}}) {
            CAPTURE(count);
            CAPTURE(micro_batch);
            const std::vector<std::string> towers(count, "cpu");
            TrainerOptions options = test::options_for(towers, 12);
            options.micro_batch = micro_batch;
            Trainer trainer(part_of, options, data);
            const StateLayout& layout = trainer.layout();
            trainer.load(moved(begin, usual.layout(), layout));
            trainer.step();
            const std::vector<float> gradients = trainer.gradients();
            trainer.step();
            const TrainingState end = trainer.save();
            for (const VariableSlot& slot : layout.variables) {
                const std::string& name = slot.variable.name;
                CAPTURE(name);
                const std::vector<float> before = values(usual.layout(), name, begin.state);
                const bool stayed = values(layout, name, end.state) == before;
                CHECK(stayed == slot.variable.frozen);
                const std::string average = name + "/ExponentialMovingAverage";
                const bool average_stayed =
                    values(layout, average, end.state) == values(usual.layout(), average, begin.state);
                CHECK(average_stayed == slot.variable.frozen);
                // Frozen statistics change what comes after them, and a norm of fewer gradients is
                // less.
                if (slot.variable.frozen || clips || part_of.model.frozen.contains("norm1/moving_mean") ||
                    part_of.model.frozen.contains("norm2/moving_mean"))
                    continue;
                const auto own = part(std::span<const float>(gradients), slot.range);
                const auto theirs = part(std::span<const float>(expected), usual.layout().find(name).range);
                if (towers.size() == 1 && micro_batch == 0)
                    CHECK(std::ranges::equal(own, theirs));
                else
                    CHECK(test::relative_norm(own, theirs) < 1e-5);
            }
            ends.push_back(end.state);
            CHECK(test::relative_norm(end.state, ends[0]) < 1e-5);
        }
    }
}

TEST_CASE("a frozen network gives the same gradients on every device") {
    const Dataset data = test::noise(50);
    for (const char* const pattern : {"norm*", "*/weights"}) {
        CAPTURE(pattern);
        const Recipe recipe = frozen(recipe_of("kind = \"momentum\""), {pattern});
        std::vector<float> first;
        for (const std::string& id : test::device_ids()) {
            CAPTURE(id);
            Trainer trainer(recipe, test::options_for({id}, 12), data);
            trainer.step();
            trainer.step(); // of other statistics than the initial ones
            if (first.empty()) first = trainer.gradients();
            CHECK(test::relative_norm(trainer.gradients(), first) < 1e-3);
        }
    }
}

TEST_CASE("backward ends where no earlier layer learns") {
    const Recipe recipe = recipe_of("kind = \"momentum\"");
    const std::set<std::string> all = operations(recipe);
    CHECK(all.contains("conv1 weights gradient"));
    const std::set<std::string> some = operations(frozen(recipe, {"conv1/*", "norm1/*", "conv2/*"}));
    for (const char* const name :
         {"conv1 weights gradient", "norm1 backward", "norm1 backward sums", "norm1 moments",
          "norm1 statistics", "conv2 weights gradient", "conv2 data gradient", "norm2 backward"})
        CHECK_FALSE(some.contains(name));
    for (const char* const name : {"norm2 backward sums", "norm2 statistics", "conv3 weights gradient"})
        CHECK(some.contains(name));
    const std::set<std::string> last = operations(frozen(recipe, {"conv*", "norm*"}));
    CHECK(std::ranges::count_if(last, [](const std::string& name) { return name.ends_with("gradient"); }) ==
          1);
    const StateLayout layout = layout_of(frozen(recipe, {"conv*", "norm*"}));
    const std::vector<StateSlot> slots = layout.slots();
    CHECK(std::ranges::count(slots, Role::optimizer, &StateSlot::role) == 2); // of the weights and the biases
}

TEST_CASE("batch norm with frozen statistics has the gradients of its evaluation") {
    // With one group of all examples and these examples' own statistics as the moving ones, the outputs of
    // training and evaluation agree, but only backward through fixed statistics leaves them out.
    const Dataset data = test::noise(12);
    Recipe recipe = test::smooth_recipe("12");
    recipe = frozen(recipe, {"norm/moving_*"});
    Trainer trainer(recipe, test::options_for({"cpu"}, 12), data);
    TrainingState state = trainer.save();
    const auto loss_at = [&](const TrainingState& at) {
        trainer.load(at);
        return double(trainer.step().loss);
    };
    trainer.step();
    const std::vector<float> gradients = trainer.gradients();
    for (const char* const name : {"conv/weights", "norm/gamma", "norm/beta"}) {
        CAPTURE(name);
        const ArenaRange& range = trainer.layout().find(name).range;
        const auto gradient = part(std::span<const float>(gradients), range);
        // along the gradient, where the loss changes most
        const double norm =
            test::relative_norm(gradient, std::vector<float>(gradient.size(), 0)) > 0
                ? std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0))
                : 0;
        REQUIRE(norm > 0);
        const double step = 0.02 / norm;
        TrainingState there = state, back = state;
        for (std::size_t i = 0; i < gradient.size(); ++i) {
            part(std::span(there.state), range)[i] += float(step * double(gradient[i]));
            part(std::span(back.state), range)[i] -= float(step * double(gradient[i]));
        }
        CHECK((loss_at(there) - loss_at(back)) / (2 * step) == doctest::Approx(norm * norm).epsilon(0.01));
    }
}

TEST_CASE("a pattern that cannot be frozen is refused with a hint") {
    const Recipe recipe = recipe_of("kind = \"sgd\"");
    const auto message = [&](const std::vector<std::string>& patterns) {
        Model model = recipe.model;
        try {
            freeze(model, patterns);
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string("none");
    };
    CHECK(message({"conv1/*"}) == "none");
    CHECK(message({}) == "none");
    CHECK(message({"conv1/*", "conv1"}) == "--freeze 'conv1': fits no variable; give 'conv1/*'");
    CHECK(message({"conv1/weigths"}) ==
          "--freeze 'conv1/weigths': fits no variable; did you mean 'conv1/weights'?");
    CHECK(message({"konv1/*"}) == "--freeze 'konv1/*': fits no variable; did you mean 'conv1/*'?");
    CHECK(message({"backbone.*"}) == "--freeze 'backbone.*': fits no variable; the names are such as "
                                     "'conv1/weights'; 'towers recipe describe "
                                     "RECIPE --variables' lists all");
    CHECK(message({"*"}) == "--freeze: no variable is left that learns; freeze fewer");
    CHECK(message({"norm1/moving_mean"}) == "--freeze: fits 'norm1/moving_mean' but not "
                                            "'norm1/moving_variance'; a batch norm's statistics are frozen "
                                            "together, as by 'norm1/moving_*'");
}

TEST_CASE("a checkpoint goes on with more or fewer frozen variables") {
    const Dataset data = test::noise(50);
    const Recipe whole = recipe_of("kind = \"adam\""), fewer = frozen(whole, {"conv1/*", "norm1/*"});
    const auto checkpoint_after_step = [&](const Recipe& recipe) {
        Trainer trainer(recipe, test::options_for({"cpu"}, 12), data);
        trainer.step();
        return to_checkpoint(trainer.save(), trainer.layout(), {"frozen", 1, 50, 0, "", recipe.checksum});
    };
    const TensorFile free = checkpoint_after_step(whole), bound = checkpoint_after_step(fewer);
    CHECK_FALSE(free.metadata.contains("frozen"));
    CHECK(frozen_in(bound).contains("norm1/moving_mean"));
    CHECK(free.tensors.contains("conv1/weights/Adam"));
    CHECK_FALSE(bound.tensors.contains("conv1/weights/Adam"));
    for (const Recipe& recipe : {whole, fewer})
        for (const TensorFile* const file : {&free, &bound}) {
            const StateLayout layout = layout_of(recipe);
            const TrainingState state = from_checkpoint(*file, layout, "file");
            for (const StateSlot& slot : layout.slots()) {
                CAPTURE(slot.name);
                const auto found = file->tensors.find(slot.name);
                const std::vector<float> zeros(slot.variable->elements());
                CHECK(values(layout, slot.name, state.state) ==
                      (found == file->tensors.end() ? zeros : found->second.values));
            }
        }
    TensorFile other = free;
    other.tensors.erase("conv1/weights/Adam");
    CHECK_THROWS_WITH(from_checkpoint(other, layout_of(whole), "file"),
                      "file: has no tensor 'conv1/weights/Adam'; it does not belong to this recipe's model");
    other = free;
    other.tensors["more"] = {{1}, {0}};
    CHECK_THROWS_AS(from_checkpoint(other, layout_of(fewer), "file"), InputError);
}

TEST_CASE("from a model of other classes all but the last layer comes") {
    const Recipe ten = recipe_of("kind = \"momentum\""), three = recipe_of("kind = \"momentum\"", 3);
    const test::TemporaryFolder folder;
    const StateLayout layout = layout_of(ten), smaller = layout_of(three);
    const TrainingState trained{.state = initial_state(layout, 7)};
    write_safetensors(folder / "ten.safetensors",
                      to_checkpoint(trained, layout, {"frozen", 1, 50, 0, "", 1}));
    const Beginning beginning = read_initial(folder / "ten.safetensors", three.model, smaller, 5);
    REQUIRE(beginning.new_layers.size() == 1);
    CHECK(beginning.new_layers[0].name == "logits");
    CHECK(beginning.new_layers[0].shapes ==
          std::vector<std::string>{"logits/weights [8, 10] there, [8, 3] here",
                                   "logits/biases [10] there, [3] here"});
    const std::vector<float> own = initial_state(smaller, 5);
    for (const VariableSlot& slot : smaller.variables) {
        const std::string& name = slot.variable.name;
        CAPTURE(name);
        const bool anew = name.starts_with("logits/");
        CHECK(values(smaller, name, beginning.state.state) ==
              (anew ? values(smaller, name, own) : values(layout, name, trained.state)));
        CHECK(values(smaller, name + "/ExponentialMovingAverage", beginning.state.state) ==
              values(smaller, name, beginning.state.state));
    }
    CHECK(read_initial(folder / "ten.safetensors", ten.model, layout, 5).new_layers.empty());

    // What is frozen is to keep the file's values, so it does not begin anew.
    const Recipe kept = frozen(three, {"logits/*"});
    CHECK(test::input_error([&] {
              read_initial(folder / "ten.safetensors", kept.model, layout_of(kept), 5);
          }).find("tensor 'logits/weights' has shape [8, 10], but this recipe's model needs [8, 3]") !=
          std::string::npos);

    // Any other difference is an error.
    TensorFile file = read_safetensors(folder / "ten.safetensors");
    file.tensors["conv3/weights"] = {{1, 1, 8, 4}, std::vector<float>(32)};
    write_safetensors(folder / "other.safetensors", file);
    CHECK_THROWS_WITH(
        read_initial(folder / "other.safetensors", three.model, smaller, 5),
        ((folder / "other.safetensors").string() +
         ": tensor 'conv3/weights' has shape [1, 1, 8, 4], but this recipe's model needs [1, 1, "
         "8, 8]")
            .c_str());
    file = read_safetensors(folder / "ten.safetensors");
    file.tensors["logits/weights"] = {{9, 10}, std::vector<float>(90)};
    write_safetensors(folder / "other.safetensors", file);
    CHECK_THROWS_WITH(read_initial(folder / "other.safetensors", three.model, smaller, 5),
                      ((folder / "other.safetensors").string() +
                       ": tensor 'logits/weights' has shape [9, 10], but this recipe's model needs [8, 3]")
                          .c_str());
}

} // namespace towers
