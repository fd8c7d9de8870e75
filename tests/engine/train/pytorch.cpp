#include "engine/run/safetensors.h"
#include "engine/train/initial.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fmt/format.h>

// Compares with tests/fixtures/small_network.safetensors, which PyTorch made in float64.

namespace towers {
namespace {

/// `arena`: laid out as the variables are.
void compare(const TensorFile& expected, const StateLayout& layout, std::span<const float> arena,
             double tolerance) {
    REQUIRE(expected.tensors.size() == layout.variables.size());
    for (const VariableSlot& slot : layout.variables) {
        CAPTURE(slot.variable.name);
        const std::span<const float> measured(arena.data() + slot.range.offset / sizeof(float),
                                              slot.variable.elements());
        CHECK(test::relative_norm(measured, expected.tensors.at(slot.variable.name).values) < tolerance);
    }
}

} // namespace

TEST_CASE("training agrees with PyTorch: losses, every gradient, parameters and moving averages") {
    const std::filesystem::path path = test::source_folder() / "tests/fixtures/small_network.safetensors";
    const TensorFile file = read_safetensors(path);
    const Dataset data = test::records_of(file, "records", {32, 32, 3}, 10);
    const std::vector<float>& losses = file.tensors.at("losses").values;
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        TrainerOptions options = test::options_for({id}, 3);
        options.distort = options.shuffle = false;
        Trainer trainer(test::small_recipe(), options, data);
        trainer.load(from_initial(test::tensors_under(file, "init/"), trainer.layout(), path));
        for (std::size_t step = 0; step < losses.size(); ++step) {
            CAPTURE(step);
            const StepReport report = trainer.step();
            CHECK(std::abs(report.loss - losses[step]) < 1e-4);
            CHECK(std::abs(report.cross_entropy - file.tensors.at("cross_entropies").values[step]) < 1e-4);
            if (step == 0)
                compare(test::tensors_under(file, "gradient/"), trainer.layout(), trainer.gradients(), 1e-3);
        }
        const TrainingState state = trainer.save();
        const std::span<const float> after = state.state;
        compare(test::tensors_under(file, "final/"), trainer.layout(), after, 1e-4);
        compare(test::tensors_under(file, "average/"), trainer.layout(),
                part(after, trainer.layout().averages()->range), 1e-4);
    }
}

} // namespace towers
