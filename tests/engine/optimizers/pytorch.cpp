#include "engine/run/safetensors.h"
#include "engine/train/initial.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"

#include <doctest/doctest.h>
#include <filesystem>

// Compares with tests/fixtures/optimizers.safetensors, which PyTorch made in float64.

namespace towers {
namespace {

const char* const network = R"(
[input]
shape = [4, 4, 1]
classes = 3

[network]
layers = [
  { name = "hidden", kind = "dense", units = 5, activation = "silu" },
  { name = "logits", kind = "dense", units = 3 },
]

[pipeline]
values = "normalized"
mean = [0.5]
deviation = [0.25]

[training]
batch = 4
steps = 20

[optimizer]
)";

/// A setting has the same name in the fixture.
struct Setting {
    const char *name, *optimizer;
};

constexpr Setting settings[] = {
    {"sgd", R"(kind = "sgd"
               learning_rate = 0.1
               weight_decay = 0.01)"},
    {"momentum", R"(kind = "momentum"
                    learning_rate = 0.05
                    momentum = 0.9
                    weight_decay = 0.02
                    decays = "all")"},
    {"nesterov", R"(kind = "momentum"
                    nesterov = true
                    learning_rate = 0.05
                    momentum = 0.8)"},
    {"rmsprop", R"(kind = "rmsprop"
                   learning_rate = 0.01
                   decay = 0.9
                   epsilon = 1e-4)"},
    {"rmsprop_momentum", R"(kind = "rmsprop"
                            learning_rate = 0.005
                            decay = 0.8
                            momentum = 0.5
                            epsilon = 1e-3
                            weight_decay = 0.01)"},
    {"rmsprop_tensorflow", R"(kind = "rmsprop"
                              epsilon_inside = true
                              learning_rate = 0.05
                              decay = 0.9
                              momentum = 0.9
                              epsilon = 0.1)"},
    {"adam", R"(kind = "adam"
                learning_rate = 0.01
                beta_1 = 0.8
                beta_2 = 0.95
                epsilon = 1e-6
                weight_decay = 0.01)"},
    {"adamw", R"(kind = "adamw"
                 learning_rate = 0.02
                 weight_decay = 0.1)"},
    {"clipped", R"(kind = "momentum"
                   learning_rate = 0.1
                   clip_norm = 0.8)"},
};

void compare_training(const TensorFile& file, const Setting& setting,
                      const std::vector<std::string>& towers) {
    const Recipe recipe =
        parse_recipe(setting.name, std::string(network) + setting.optimizer, "optimizers.toml");
    TrainerOptions options = test::options_for(towers, recipe.batch);
    options.distort = options.shuffle = false;
    options.learning_rate = recipe.optimizer->learning_rate;
    Trainer trainer(recipe, options, test::records_of(file, "images", {4, 4, 1}, 3));
    const StateLayout& layout = trainer.layout();
    trainer.load(from_initial(test::tensors_under(file, "init/"), layout, "optimizers.safetensors"));
    for (std::uint64_t step = 0; step < recipe.steps; ++step) trainer.step();
    const TrainingState state = trainer.save();
    for (const VariableSlot& slot : layout.variables) {
        CAPTURE(slot.variable.name);
        const auto measured = part(std::span(state.state), slot.range).first(slot.variable.elements());
        const std::vector<float>& expected =
            file.tensors.at(std::string(setting.name) + '/' + slot.variable.name).values;
        REQUIRE(measured.size() == expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
            CAPTURE(i);
            CHECK(std::abs(measured[i] - expected[i]) < 1e-5);
        }
    }
}

} // namespace

TEST_CASE("20 steps of every optimizer end where PyTorch's end") {
    const TensorFile file = read_safetensors(test::source_folder() / "tests/fixtures/optimizers.safetensors");
    for (const Setting& setting : settings) {
        CAPTURE(setting.name);
        for (const std::string& id : test::device_ids()) {
            CAPTURE(id);
            compare_training(file, setting, {id});
        }
        compare_training(file, setting, {"cpu", "cpu"}); // the host reducer updates
    }
}

} // namespace towers
