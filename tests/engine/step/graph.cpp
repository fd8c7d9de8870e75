// Networks beyond a chain: branches, batch norm, dropout, every optimizer.
#include "backends/error.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/shares/shares.h"
#include "engine/train/checkpoint.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <limits>
#include <regex>

namespace towers {
namespace {

std::string recipe_text(const std::string& layers, const std::string& optimizer) {
    return fmt::format("[input]\nshape = [24, 24, 3]\nclasses = 10\n[network]\nlayers = [\n{}\n]\n"
                       "[pipeline]\nkind = \"tutorial\"\n[optimizer]\n{}\n[averages]\ndecay = 0.9\n"
                       "[training]\nbatch = 12\nsteps = 10\n",
                       layers, optimizer);
}

const std::string residual = R"(
  { name = "conv1", kind = "conv2d", filters = 8, kernel = 3, stride = 2, bias = false },
  { kind = "batch_norm", group = 2, activation = "relu" },
  { name = "block", repeat = 2, layers = [
    { name = "conv1", kind = "conv2d", filters = 8, kernel = 3, bias = false },
    { kind = "batch_norm", group = 2, activation = "relu" },
    { name = "conv2", kind = "conv2d", filters = 8, kernel = 3, bias = false },
    { name = "bn2", kind = "batch_norm", group = 2 },
    { kind = "add", inputs = ["bn2", "input"], activation = "relu" },
  ] },
  { kind = "global_average_pool" },
  { kind = "dropout", keep = 0.8 },
  { name = "logits", kind = "dense", units = 10, weight_decay = 0.01 },)";

/// The residual network with other groups of batch norm.
std::string residual_with(const std::string& group) {
    return std::regex_replace(residual, std::regex("group = 2"), "group = " + group);
}

const std::string sgd = "kind = \"sgd\"\nlearning_rate = 0.05";

const std::vector<std::string> optimizers = {
    sgd,
    "kind = \"momentum\"\nlearning_rate = 0.02\nweight_decay = 1e-3\ndecays = \"all\"",
    "kind = \"momentum\"\nnesterov = true\nlearning_rate = 0.02\nclip_norm = 0.5",
    "kind = \"rmsprop\"\nlearning_rate = 1e-3\nmomentum = 0.9",
    "kind = \"rmsprop\"\nlearning_rate = 0.01\nmomentum = 0.9\nepsilon = 1.0\nepsilon_inside = true",
    "kind = \"adam\"\nlearning_rate = 1e-3",
    "kind = \"adamw\"\nlearning_rate = 1e-3\nweight_decay = 0.1",
};

TrainingState after_steps(const Recipe& recipe, const TrainerOptions& options, const Dataset& data,
                          int steps) {
    Trainer trainer(recipe, options, data);
    for (int i = 0; i < steps; ++i) trainer.step();
    return trainer.save();
}

/// The largest distance of any tensor of the state after 10 steps with these towers from a single `cpu`
/// tower's.
double largest_difference(const Recipe& recipe, const Dataset& data, const std::vector<std::string>& towers,
                          const std::vector<double>& shares) {
    const TrainingState alone = after_steps(recipe, test::options_for({"cpu"}, 12), data, 10);
    TrainerOptions options = test::options_for(towers, 12);
    options.shares.weights = shares;
    const TrainingState split = after_steps(recipe, options, data, 10);
    const std::span<const float> a = split.state, b = alone.state;
    double most = 0;
    for (const StateSlot& slot : layout_of(recipe).slots())
        most = std::max(most, test::relative_norm(part(a, slot.range), part(b, slot.range)));
    return most;
}

} // namespace

TEST_CASE("batch norm by groups, dropout and branches: any shares train the single tower's network") {
    const Recipe recipe = parse_recipe("residual", recipe_text(residual, sgd), "residual.toml");
    const Dataset data = test::noise(50);
    const auto difference = [&](const std::vector<std::string>& towers, const std::vector<double>& shares) {
        return largest_difference(recipe, data, towers, shares);
    };
    CHECK(difference({"cpu", "cpu", "cpu"}, {3, 2, 1}) < 1e-4);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        CHECK(difference({"cpu", id}, {5, 1}) < 1e-4);
    }
}

TEST_CASE("layer norm learns from every pixel, of few or many in a tower's share") {
    // The single tower and the first of two have more chunks of pixels than one launch merges, the second
    // fewer.
    const Recipe recipe = parse_recipe("normalized",
                                       recipe_text(R"(
  { name = "conv1", kind = "conv2d", filters = 8, kernel = 3 },
  { name = "norm", kind = "layer_norm" },
  { kind = "gelu", approximate = "tanh" },
  { kind = "global_average_pool" },
  { name = "logits", kind = "dense", units = 10 },)",
                                                   sgd),
                                       "normalized.toml");
    const Dataset data = test::noise(50);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        CHECK(largest_difference(recipe, data, {id, "cpu"}, {5, 1}) < 1e-4);
    }
}

TEST_CASE("with every optimizer a training resumes from its checkpoint to the bit") {
    const Dataset data = test::noise(50);
    const CheckpointOrigin origin{"residual", 3, 50, 0, ""};
    for (const std::string& optimizer : optimizers) {
        CAPTURE(optimizer);
        const Recipe recipe = parse_recipe("residual", recipe_text(residual, optimizer), "residual.toml");
        for (const std::vector<std::string>& towers :
             {std::vector<std::string>{"cpu"}, std::vector<std::string>{"cpu", "cpu"}}) {
            const TrainerOptions options = test::options_for(towers, 12);
            const TrainingState whole = after_steps(recipe, options, data, 4);
            Trainer first(recipe, options, data), second(recipe, options, data);
            for (int i = 0; i < 2; ++i) first.step();
            const TensorFile file = to_checkpoint(first.save(), first.layout(), origin);
            second.load(from_checkpoint(file, second.layout(), "checkpoint"));
            for (int i = 0; i < 2; ++i) second.step();
            CHECK(second.save().state == whole.state);
        }
    }
}

TEST_CASE("weight decay counts once, whatever the towers") {
    const Dataset data = test::noise(50);
    const Recipe recipe = parse_recipe("residual", recipe_text(residual, optimizers[1]), "residual.toml");
    const StepReport alone = Trainer(recipe, test::options_for({"cpu"}, 12), data).step();
    const StepReport three = Trainer(recipe, test::options_for({"cpu", "cpu", "cpu"}, 12), data).step();
    CHECK(alone.loss > alone.cross_entropy * 1.001f);
    CHECK(three.loss == doctest::Approx(alone.loss).epsilon(1e-6));
}

TEST_CASE("the learning rate of a warm-up is that of the global batch, whatever the towers") {
    const Dataset data = test::noise(50);
    const Recipe recipe =
        parse_recipe("residual", recipe_text(residual, sgd + "\n[schedule]\nwarm_up = 1"), "residual.toml");
    Trainer alone(recipe, test::options_for({"cpu"}, 12), data);
    Trainer three(recipe, test::options_for({"cpu", "cpu", "cpu"}, 12), data);
    for (int step = 0; step < 3; ++step) {
        const double rate = alone.step().learning_rate;
        CHECK(rate == doctest::Approx(test::options_for({"cpu"}, 12).learning_rate * step * 12 / 50));
        CHECK(three.step().learning_rate == rate);
    }
}

TEST_CASE("a divergence names the tower that made it, though batch norm spreads it to all") {
    const Dataset data = test::noise(50);
    for (const std::string group : {"2", "\"batch\""}) {
        CAPTURE(group);
        const Recipe recipe =
            parse_recipe("residual", recipe_text(residual_with(group), sgd), "residual.toml");
        TrainerOptions options = test::options_for({"cpu", "cpu", "cpu"}, 12);
        // Its batch norms see NaN, as a card with faulty memory would let them.
        const auto device_of_nan = open_device("cpu", {});
        const Buffer nan = device_of_nan->allocate(std::size_t(1) << 20, Memory::staging);
        std::ranges::fill(nan.host<float>(), std::numeric_limits<float>::quiet_NaN());
        test::wrap_tower(options, 1, [&](std::unique_ptr<Device> device) {
            return std::make_unique<test::ScriptedDevice>(
                std::move(device), test::Script{.record = [&](std::vector<Command>& commands) {
                    for (Command& command : commands)
                        if (auto* launch = std::get_if<Launch>(&command);
                            launch != nullptr && launch->kernel == Kernel::batch_norm_moments)
                            launch->parameters.set_pointer(0, nan.address());
                }});
        });
        Trainer trainer(recipe, options, data);
        std::string message;
        try {
            trainer.step();
        } catch (const Diverged& diverged) {
            message = diverged.what();
        }
        CAPTURE(message);
        CHECK(message.find("tower_1 (cpu)") != std::string::npos);
    }
}

TEST_CASE("a ReLU over the logits masks the gradient where it masked the logits") {
    const Recipe recipe = parse_recipe(
        "relu", recipe_text(R"({ name = "logits", kind = "dense", units = 10, activation = "relu" })", sgd),
        "relu.toml");
    const Dataset data = test::noise(50);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        Trainer trainer(recipe, test::options_for({id}, 12), data);
        TrainingState state{.state = initial_state(trainer.layout(), trainer.options().seed)};
        const StateLayout& layout = trainer.layout();
        const auto biases = part(std::span(state.state), layout.find("logits/biases").range);
        biases[3] = -1e4f;
        trainer.load(state);
        trainer.step();
        const std::vector<float> gradients = trainer.gradients();
        const auto of_biases = part(std::span<const float>(gradients), layout.find("logits/biases").range);
        CHECK(of_biases[3] == 0);
        CHECK(std::ranges::any_of(of_biases, [](float g) { return g != 0; }));
    }
}

TEST_CASE("shares are whole groups of examples") {
    CHECK(share_out(32, 2, {3, 1}, 8) == std::vector<unsigned>{24, 8});
    CHECK(share_out(24, 2, {}, 8) == std::vector<unsigned>{16, 8});
    CHECK_THROWS_AS(share_out(30, 2, {}, 8), UsageError);
    CHECK_THROWS_AS(share_out(8, 2, {}, 8), UsageError);
}

TEST_CASE("batch norm over the whole batch: any shares train the single tower's network") {
    const Recipe recipe =
        parse_recipe("residual", recipe_text(residual_with("\"batch\""), sgd), "residual.toml");
    const Dataset data = test::noise(50);
    const auto difference = [&](const std::vector<std::string>& towers, const std::vector<double>& shares) {
        return largest_difference(recipe, data, towers, shares);
    };
    CHECK(difference({"cpu", "cpu", "cpu"}, {3, 2, 1}) < 1e-4);
    CHECK(difference({"cpu", "cpu"}, {11, 1}) < 1e-4);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        CHECK(difference({"cpu", id}, {3, 1}) < 1e-4);
        CHECK(difference({id, id, "cpu"}, {3, 2, 1}) < 1e-4);
    }
}

TEST_CASE(
    "data that does not fit a recipe is refused: more classes, other colours, images smaller than the crop") {
    const Recipe recipe = find_recipe("cifar10-tutorial");
    DataInfo data = test::noise(10).info();
    CHECK_NOTHROW(check_data(recipe, data));
    data.classes.resize(9);
    CHECK_NOTHROW(check_data(recipe, data));
    data.classes.resize(11);
    CHECK_THROWS_AS(check_data(recipe, data), InputError);
    data.classes.resize(10);
    data.image.channels = 1;
    CHECK_THROWS_AS(check_data(recipe, data), InputError);
    data.image.channels = 3;
    data.image.height = 23;
    CHECK_THROWS_AS(check_data(recipe, data), InputError);
}

} // namespace towers
