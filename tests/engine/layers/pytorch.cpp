#include "engine/recipes/recipe_plan.h"
#include "engine/run/safetensors.h"
#include "engine/train/initial.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"

#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>

// Compares with tests/fixtures/layers.safetensors, which PyTorch made in float64 for layers.toml.

namespace towers {
namespace {

void compare(const TensorFile& file, const std::string& prefix, const StateLayout& layout,
             const std::vector<float>& arena, double tolerance) {
    for (const VariableSlot& slot : layout.variables) {
        const auto expected = file.tensors.find(prefix + slot.variable.name);
        if (expected == file.tensors.end()) continue;
        CAPTURE(expected->first);
        REQUIRE(expected->second.shape == slot.variable.shape);
        const auto measured = part(std::span(arena), slot.range).first(slot.variable.elements());
        CHECK(test::relative_norm(measured, expected->second.values) < tolerance);
    }
}

void compare_training(const TensorFile& file, const Recipe& recipe, const std::vector<std::string>& towers) {
    TrainerOptions options = test::options_for(towers, recipe.batch);
    options.distort = options.shuffle = false;
    options.learning_rate = recipe.optimizer->learning_rate;
    Trainer trainer(recipe, options, test::records_of(file, "images", {12, 10, 3}, 7));
    const StateLayout& layout = trainer.layout();
    trainer.load(from_initial(test::tensors_under(file, "init/"), layout, "layers.safetensors"));
    const std::vector<float>& losses = file.tensors.at("losses").values;
    const std::vector<float>& cross_entropies = file.tensors.at("cross_entropies").values;
    for (std::size_t step = 0; step < losses.size(); ++step) {
        CAPTURE(step);
        const StepReport report = trainer.step();
        CHECK(std::abs(report.loss - losses[step]) < 1e-5 * losses[step]);
        CHECK(std::abs(report.cross_entropy - cross_entropies[step]) < 1e-5 * losses[step]);
        if (step != 0) continue;
        compare(file, "gradient/", layout, trainer.gradients(), 1e-4);
        compare(file, "value/", layout, trainer.gradients(), 1e-5);
    }
    compare(file, "final/", layout, trainer.save().state, 1e-5);
}

} // namespace

TEST_CASE("every kind of layer trains as in PyTorch: losses, gradients, moving statistics") {
    const std::filesystem::path folder = test::source_folder() / "tests/fixtures";
    const TensorFile file = read_safetensors(folder / "layers.safetensors");
    const Recipe recipe = find_recipe((folder / "layers.toml").string());
    const std::size_t variables = layout_of(recipe).variables.size();
    REQUIRE(test::tensors_under(file, "final/").tensors.size() == variables);
    REQUIRE(test::tensors_under(file, "gradient/").tensors.size() +
                test::tensors_under(file, "value/").tensors.size() ==
            variables);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        compare_training(file, recipe, {id});
        CAPTURE("two towers");
        compare_training(file, recipe, {id, "cpu"});
    }
}

} // namespace towers
