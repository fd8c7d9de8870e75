// Class weights against tests/fixtures/class_weights.safetensors, which PyTorch made in float64, and what a
// training with them and with classes equally often has in common however it is divided and resumed.
#include "backends/error.h"
#include "engine/recipes/batch_tables.h"
#include "engine/recipes/recipe_data.h"
#include "engine/run/safetensors.h"
#include "engine/train/diverged.h"
#include "engine/train/initial.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"
#include "tests/support/ways.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace towers {
namespace {

const std::filesystem::path& path() {
    static const std::filesystem::path path =
        test::source_folder() / "tests/fixtures/class_weights.safetensors";
    return path;
}

/// The fixture's network, with these lines of [[loss]] and [training].
Recipe recipe_with(const std::string& losses, const std::string& training = "") {
    const bool two = losses.find("second") != std::string::npos;
    return parse_recipe("weighted",
                        fmt::format(R"(
[input]
shape = [8, 8, 3]
classes = 5
[network]
layers = [
  {{ name = "conv", kind = "conv2d", filters = 6, kernel = 3, pad = 1, activation = "silu" }},
  {{ name = "pool", kind = "global_average_pool" }},
  {}
  {{ name = "logits", kind = "dense", units = 5, input = "pool" }},
]
{}
[pipeline]
values = "normalized"
mean = [0.5]
deviation = [0.25]
[optimizer]
kind = "momentum"
learning_rate = 0.1
[training]
batch = 12
steps = 20
{}
)",
                                    two ? R"({ name = "second", kind = "dense", units = 5 },)" : "", losses,
                                    training),
                        "weighted.toml");
}

constexpr const char* listed = "class_weights = [0.25, 1, 2, 3.5, 6]";

/// The fixture's cases.
const std::map<std::string, std::string> cases = {
    {"balanced", "[[loss]]\nclass_weights = \"balanced\""},
    {"smoothed", fmt::format("[[loss]]\n{}\nsmoothing = 0.1", listed)},
    {"two",
     fmt::format("[[loss]]\nlogits = \"logits\"\nclass_weights = \"balanced\"\nweight = 0.7\nsmoothing = "
                 "0.2\n[[loss]]\nlogits = \"second\"\nweight = 0.4\n{}",
                 listed)}};

/// The fixture's data, with names of classes.
Dataset fixture_data(const TensorFile& file) {
    const Dataset found = test::records_of(file, "records", {8, 8, 3}, 5);
    DataInfo info = found.info();
    info.classes = {"ant", "bee", "cat", "dog", "eel"};
    return {
        info, {found.images().begin(), found.images().end()}, {found.labels().begin(), found.labels().end()}};
}

constexpr const char* named =
    "[[loss]]\nclass_weights = { ant = 0.5, bee = 1, cat = 1.5, dog = 2, eel = 4.5 }";

} // namespace

TEST_CASE("weighted losses and their gradients are PyTorch's, however a step is divided") {
    const TensorFile file = read_safetensors(path());
    const Dataset data = fixture_data(file);
    for (const auto& [name, losses] : cases)
        test::check_losses(file, path(), name, recipe_with(losses), data, 1);
}

TEST_CASE("a training with class weights and classes equally often goes on with the same bits") {
    const Dataset data = fixture_data(read_safetensors(path()));
    test::check_goes_on(recipe_with(named, "sampler = \"balanced\""), data, 7, 12); // in the second epoch
}

TEST_CASE("with classes equally often, any division of a step gives the same gradients") {
    const Dataset data = fixture_data(read_safetensors(path()));
    constexpr unsigned batch = 60; // whose class weights lie elsewhere than a micro-batch's would
    test::check_any_division(recipe_with(named, "sampler = \"balanced\""), data, batch);
}

TEST_CASE("balanced weights are scikit-learn's, and a batch's have the mean 1 over its examples") {
    const TensorFile file = read_safetensors(path());
    const Dataset data = fixture_data(file);
    const Recipe recipe = recipe_with(cases.at("two"));
    const Model& model = recipe.model;
    CHECK(class_weights_of(model.heads[0], model, data) ==
          std::vector<double>{60.0 / 200, 60.0 / 50, 60.0 / 25, 60.0 / 15, 60.0 / 10});
    CHECK(class_weights_of(model.heads[1], model, data) == std::vector<double>{0.25, 1, 2, 3.5, 6});
    const std::vector<Example> batch{{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 4}};
    const std::vector<float> weights = TableMaker(recipe, data, 1, true)(0, batch).class_weights;
    REQUIRE(weights.size() == 2 * class_stride(5));
    for (const std::size_t head : {0, 1}) {
        const float* const its = weights.data() + head * class_stride(5);
        CHECK(2 * its[0] + its[4] == doctest::Approx(3));
    }
    CHECK(weights[4] / weights[0] == doctest::Approx(20));
    CHECK(TableMaker(recipe_with(""), data, 1, true)(0, batch).class_weights.empty());
}

TEST_CASE("an evaluation has no class weights") {
    const TensorFile file = read_safetensors(path());
    const Dataset data = fixture_data(file);
    const auto evaluate = [&](const std::string& losses) {
        Trainer trainer(recipe_with(losses), test::options_of({"one tower", {"cpu"}}, false), data,
                        test::borrowed(data));
        trainer.load(from_initial(test::tensors_under(file, "init/"), trainer.layout(), path()));
        return trainer.test(true)->evaluation.cross_entropy();
    };
    CHECK(evaluate(cases.at("balanced")) == evaluate(""));
}

TEST_CASE("a step with class weights that diverged is repeated with those of its global batch") {
    const TensorFile file = read_safetensors(path());
    const Dataset data = fixture_data(file);
    const Recipe recipe = recipe_with(cases.at("two"));
    Trainer trainer(recipe, test::options_of({"two towers", {"cpu", "cpu"}, {7, 5}}, false), data);
    TrainingState state = from_initial(test::tensors_under(file, "init/"), trainer.layout(), path());
    for (float& each : part(std::span(state.state), trainer.layout().find("conv/weights").range))
        each = 3e38f;
    trainer.load(state);
    test::TemporaryFolder folder;
    bool diverged = false;
    try {
        trainer.step();
    } catch (const Diverged& error) {
        diverged = true;
        std::vector<Example> batch(12);
        make_sampler(recipe, data, 3, false).fill(0, batch);
        ResidentFeed(data).bring(batch);
        CHECK(error.of.batch.tables.class_weights ==
              TableMaker(recipe, data, 3, true)(0, batch).class_weights);
        const DivergedStep step = diverged_step(trainer, error.of, data);
        const CheckpointOrigin origin{recipe.name, 3, data.size(), 0, "", recipe.checksum};
        const std::filesystem::path kept = folder / "diverged-0.safetensors";
        write_safetensors(kept, to_tensors(step, origin));
        const DivergedStep read = read_diverged(kept);
        CHECK(read.step.batch.tables.class_weights == error.of.batch.tables.class_weights);
        CHECK(replay(test::device("cpu"), recipe, read.step).diverges);
        CHECK(from_checkpoint(read_safetensors(kept), trainer.layout(), kept).step == 0); // as eval does
        TensorFile without = to_tensors(step, origin);
        without.tensors.erase("examples/class_weights");
        write_safetensors(kept, without);
        CHECK_THROWS_WITH_AS(read_diverged(kept),
                             (kept.string() + ": its class weights do not fit its recipe; it is damaged, use "
                                              "another copy of it")
                                 .c_str(),
                             InputError);
    }
    CHECK(diverged);
}

TEST_CASE("weights that do not fit the data are refused in one line") {
    const TensorFile file = read_safetensors(path());
    const Dataset data = fixture_data(file);
    const auto says = [](const std::string& losses, const DataSource& source,
                         const std::string& training = "") {
        try {
            const Recipe recipe = recipe_with(losses, training);
            const TableMaker make_tables(recipe, source, 1, true);
            make_sampler(recipe, source, 1, true);
        } catch (const InputError& error) {
            return std::string(error.what());
        }
        return std::string("it is sound");
    };
    CHECK(says(named, data) == "it is sound");
    CHECK(says("[[loss]]\nclass_weights = { ant = 1, bee = 1, cats = 1, dog = 1, eel = 1 }", data) ==
          "weighted.toml:13: [[loss]]: 'class_weights' names class cats, which fixture does not have, but it "
          "has cat; 'towers data describe' lists its classes");
    CHECK(says("[[loss]]\nclass_weights = { ant = 1, bee = 1, cat = 1, dog = 1 }", data) ==
          "weighted.toml:13: [[loss]]: 'class_weights' has 4 of the 5 classes of fixture, but not eel; give "
          "each a weight, such as 1");
    const Dataset none(data.info(), std::vector<std::uint8_t>(2 * 192), {0, 4});
    CHECK(says(cases.at("balanced"), none) ==
          "weighted.toml:13: [[loss]]: 'class_weights' is \"balanced\", but class bee of fixture has no "
          "training examples; give the weights by name, or data without that class");
    CHECK(says("", none, "sampler = \"balanced\"") ==
          "weighted.toml: [training]: 'sampler' is \"balanced\", but class bee of fixture has no training "
          "examples; give data without that class, or class_weights by name in [[loss]] instead");
    CHECK(says(named, none) == "it is sound");
    // A class of the background and one that the data lacks have the weight 1.
    Recipe background = recipe_with("[[loss]]\nclass_weights = { ant = 2, bee = 3, cat = 4 }");
    background.model.label_offset = 1;
    DataInfo info = data.info();
    info.classes.resize(3);
    const Dataset three(info, std::vector<std::uint8_t>(3 * 192), {0, 1, 2});
    CHECK(class_weights_of(background.model.heads[0], background.model, three) ==
          std::vector<double>{1, 2, 3, 4, 1});
}

} // namespace towers
