#include "engine/run/safetensors.h"
#include "engine/train/checkpoint.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"

#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>

// Compares with tests/fixtures/layers.safetensors, which PyTorch made in float64 for layers.toml.

namespace towers {
namespace {

Dataset records_of(const TensorFile& file) {
    Dataset data{.name = "fixture", .height = 12, .width = 10, .channels = 3};
    data.classes.assign(7, "any");
    for (const float value : file.tensors.at("images").values) data.images.push_back(std::uint8_t(value));
    for (const float value : file.tensors.at("labels").values) data.labels.push_back(std::uint32_t(value));
    return data;
}

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

std::size_t count_of(const TensorFile& file, const std::string& prefix) {
    std::size_t count = 0;
    for (const auto& [name, tensor] : file.tensors) count += name.starts_with(prefix);
    return count;
}

void compare_training(const TensorFile& file, const Recipe& recipe, const std::vector<std::string>& towers) {
    TrainerOptions options = test::options_for(towers, recipe.batch);
    options.distort = options.shuffle = false;
    options.learning_rate = recipe.optimizer->learning_rate;
    Trainer trainer(recipe, options, records_of(file));
    const StateLayout& layout = trainer.layout();
    TensorFile initial;
    for (const VariableSlot& slot : layout.variables)
        initial.tensors[slot.variable.name] = file.tensors.at("init/" + slot.variable.name);
    trainer.load(from_initial(initial, layout, "layers.safetensors"));
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
    REQUIRE(count_of(file, "final/") == variables);
    REQUIRE(count_of(file, "gradient/") + count_of(file, "value/") == variables);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        compare_training(file, recipe, {id});
        CAPTURE("two towers");
        compare_training(file, recipe, {id, "cpu"});
    }
}

} // namespace towers
