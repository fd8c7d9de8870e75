// Mixup, CutMix and losses of several labels against tests/fixtures/mixing.safetensors, which PyTorch made in
// float64, and what a training with them has in common however it is divided and resumed.
#include "backends/error.h"
#include "engine/recipes/batch_tables.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/run/safetensors.h"
#include "engine/train/diverged.h"
#include "engine/train/initial.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"
#include "tests/support/ways.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace towers {
namespace {

const std::filesystem::path& path() {
    static const std::filesystem::path path = test::source_folder() / "tests/fixtures/mixing.safetensors";
    return path;
}

/// The fixture's network, with these lines of [[loss]] and [mixing].
Recipe recipe_with(const std::string& tables, unsigned classes = 5) {
    return parse_recipe("mixed",
                        fmt::format(R"(
[input]
shape = [8, 8, 3]
classes = {}
[network]
layers = [
  {{ name = "conv", kind = "conv2d", filters = 6, kernel = 3, pad = 1, activation = "silu" }},
  {{ name = "pool", kind = "global_average_pool" }},
  {{ name = "logits", kind = "dense", units = "$classes" }},
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
)",
                                    classes, tables),
                        "mixed.toml");
}

/// The fixture's cases.
const std::map<std::string, std::string> cases = {
    {"mixup", "[[loss]]\nsmoothing = 0.1\n[mixing]\nmixup = 0.8"},
    {"both", "[[loss]]\nclass_weights = [0.25, 1, 2, 3.5, 6]\n[mixing]\nmixup = 0.2\ncutmix = 1\n"
             "probability = 0.8\ndraw = \"example\""},
    {"one_class", "[[loss]]\nkind = \"sigmoid\"\nsmoothing = 0.1\npositive_weights = [0.25, 1, 2, 3.5, 6]\n"
                  "[mixing]\nmixup = 0.4\ndraw = \"example\""},
    {"several", "[[loss]]\nkind = \"sigmoid\"\npositive_weights = \"balanced\""},
    {"several_cut", "[[loss]]\nkind = \"sigmoid\"\nweight = 0.5\nlogit_scale = 2\n[mixing]\ncutmix = 1"}};

/// Records with several labels each.
class Labelled final : public DataSource {
public:
    Labelled(DataInfo info, std::vector<std::uint8_t> images, LabelSets sets)
        : DataSource(std::move(info), std::move(sets)), images_(std::move(images)) {}

    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override {
        const std::size_t image = image_size().elements();
        for (std::size_t i = 0; i < records.size(); ++i)
            std::copy_n(images_.begin() + std::ptrdiff_t(records[i] * image), image,
                        images.begin() + std::ptrdiff_t(i * image));
    }

private:
    std::vector<std::uint8_t> images_;
};

std::unique_ptr<DataSource> data_of(const TensorFile& file, const std::string& name) {
    const Dataset found = test::records_of(file, "records", {8, 8, 3}, 5);
    const std::vector<std::uint8_t> images(found.images().begin(), found.images().end());
    if (!name.starts_with("several"))
        return std::make_unique<Dataset>(
            found.info(), images, std::vector<std::uint32_t>(found.labels().begin(), found.labels().end()));
    const std::vector<float>& given = file.tensors.at("sets").values;
    LabelSets sets;
    for (std::size_t record = 0; record < found.size(); ++record) {
        std::vector<std::uint32_t> labels;
        for (std::uint32_t c = 0; c < 5; ++c)
            if (given[record * 5 + c] > 0) labels.push_back(c);
        sets.add(labels);
    }
    return std::make_unique<Labelled>(found.info(), images, sets);
}

} // namespace

TEST_CASE("mixed steps and their gradients are PyTorch's, however a step is divided") {
    const TensorFile file = read_safetensors(path());
    for (const auto& [name, tables] : cases)
        test::check_losses(file, path(), name, recipe_with(tables), *data_of(file, name), 1);
}

TEST_CASE("who is mixed with whom is drawn as documented") {
    const TensorFile file = read_safetensors(path());
    for (const auto& [name, tables] : cases) {
        const Recipe recipe = recipe_with(tables);
        if (!recipe.mixing.mixes()) continue;
        INFO(name);
        const std::vector<float>& expected = file.tensors.at("mixes/" + name).values;
        REQUIRE(expected.size() == std::size_t(20 * 12 * 6));
        std::vector<float> found;
        for (std::uint64_t step = 0; step < 20; ++step)
            for (const Mix& mix : mixes_of(recipe.mixing, 1, step * 12, 12, recipe.model.input)) {
                const bool has_part = mix.part > 0;
                for (const std::uint32_t each : {mix.partner, 0u, mix.corner >> 16, mix.corner & 0xffff,
                                                 mix.size >> 16, mix.size & 0xffff})
                    found.push_back(float(each));
                found[found.size() - 5] = mix.part;
                CHECK(has_part == (mix.partner_target(recipe.model.input) > 0));
            }
        CHECK(found == expected);
    }
}

TEST_CASE("parts of partners have timm's distributions, and every example is one partner") {
    const Shape image{32, 32, 3};
    constexpr unsigned batch = 50, batches = 4000;
    struct Case {
        Mixing mixing;
        double mixed, mean, square; ///< part of the examples that are mixed; moments of their targets
    };
    // Beta(a, a) has the mean 1/2 and the variance 1 / (4 (2 a + 1)).
    for (const auto& [mixing, mixed, mean, square] :
         {Case{{.mixup = 0.2f, .by_example = true}, 1, 0.5, 0.25 + 1 / 5.6},
          Case{{.mixup = 1, .probability = 0.25f, .by_example = true}, 0.25, 0.5, 1.0 / 3},
          Case{{.mixup = 8, .by_example = true}, 1, 0.5, 0.25 + 1.0 / 68}}) {
        double count = 0, sum = 0, squares = 0;
        for (unsigned step = 0; step < batches; ++step)
            for (const Mix& mix : mixes_of(mixing, 3, std::uint64_t(step) * batch, batch, image)) {
                const double target = mix.partner_target(image);
                count += mix.size > 0, sum += target, squares += target * target;
            }
        count /= batch * batches, sum /= batch * batches, squares /= batch * batches;
        CHECK(count == doctest::Approx(mixed).epsilon(0.01));
        CHECK(sum == doctest::Approx(mixed * mean).epsilon(0.01));
        CHECK(squares == doctest::Approx(mixed * square).epsilon(0.01));
    }
    unsigned cut = 0, alike = 0;
    for (unsigned step = 0; step < batches; ++step) {
        const std::vector<Mix> mixes = mixes_of({.mixup = 1, .cutmix = 1}, 3, step, batch, image);
        std::set<std::uint32_t> partners;
        for (std::uint32_t i = 0; i < batch; ++i) {
            partners.insert(mixes[i].partner);
            CHECK(mixes[i].partner != i);
        }
        CHECK(partners.size() == batch);
        cut += mixes[0].part == 1 ? 1u : 0u;
        const auto drawn = [](const Mix& mix) { return std::tuple(mix.part, mix.corner, mix.size); };
        alike += std::ranges::all_of(mixes, [&](const Mix& mix) { return drawn(mix) == drawn(mixes[0]); });
    }
    CHECK(cut / double(batches) == doctest::Approx(0.5).epsilon(0.05));
    CHECK(alike == batches); // a batch draws once
}

TEST_CASE("a training with mixed images goes on with the same bits") {
    const TensorFile file = read_safetensors(path());
    for (const char* const name : {"both", "several_cut"}) {
        INFO(name);
        test::check_goes_on(recipe_with(cases.at(name)), *data_of(file, name), 7, 12); // in the second epoch
    }
}

TEST_CASE("a mixed step that diverged is repeated with its partners") {
    const TensorFile file = read_safetensors(path());
    const std::unique_ptr<DataSource> data = data_of(file, "both");
    const Recipe recipe = recipe_with(cases.at("both"));
    for (const std::vector<double>& shares : {std::vector<double>{7, 5}, {1, 0}}) {
        Trainer trainer(recipe, test::options_of({"two towers", {"cpu", "cpu"}, shares}, false), *data);
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
            const KeptBatch& batch = error.of.batch;
            CHECK(batch.tables.mixes.size() == batch.examples.size());
            CHECK(batch.strangers.empty() == (batch.examples.size() == 12));
            const DivergedStep step = diverged_step(trainer, error.of, *data);
            const CheckpointOrigin origin{recipe.name, 3, data->size(), 0, "", recipe.checksum};
            const std::filesystem::path kept = folder / "diverged-0.safetensors";
            write_safetensors(kept, to_tensors(step, origin));
            const DivergedStep read = read_diverged(kept);
            CHECK(read.step.batch.examples == step.step.batch.examples);
            CHECK(read.step.batch.strangers == step.step.batch.strangers);
            CHECK(read.step.batch.tables.mixes == batch.tables.mixes);
            CHECK(read.step.batch.tables.targets == batch.tables.targets);
            CHECK(replay(test::device("cpu"), recipe, read.step).diverges);
            const auto says = [&](const std::function<void(TensorFile&)>& change) {
                TensorFile other = to_tensors(step, origin);
                change(other);
                write_safetensors(kept, other);
                try {
                    read_diverged(kept);
                } catch (const InputError& refused) {
                    const std::string line = refused.what();
                    const std::size_t from = kept.string().size() + 2;
                    return line.substr(from, line.find(';') - from);
                }
                return std::string("it is sound");
            };
            CHECK(says([](TensorFile& kept_file) { kept_file.words.at("examples/mixes").values[0] = 99; }) ==
                  "one of its mixes has no partner");
            CHECK(says([](TensorFile& kept_file) { kept_file.words.erase("examples/mixes"); }) ==
                  "its mixes do not fit its recipe");
            CHECK(says([](TensorFile& kept_file) { kept_file.tensors.erase("examples/targets"); }) ==
                  "its targets do not fit its recipe");
            if (!batch.strangers.empty()) // a whole batch has none
                CHECK(says([&](TensorFile& kept_file) {
                          kept_file.metadata.at("global_batch") = std::to_string(batch.examples.size());
                      }) == "its examples do not fit together");
        }
        CHECK(diverged);
    }
}

TEST_CASE("an evaluation mixes nothing, and a sigmoid head's has the loss of its labels") {
    const TensorFile file = read_safetensors(path());
    const auto evaluate = [&](const std::string& name, const std::string& tables) {
        const std::unique_ptr<DataSource> data = data_of(file, name);
        Trainer trainer(recipe_with(tables), test::options_of({"one tower", {"cpu"}}, false), *data,
                        test::borrowed(*data));
        trainer.load(from_initial(test::tensors_under(file, "init/"), trainer.layout(), path()));
        return trainer.test(true)->evaluation.cross_entropy();
    };
    CHECK(evaluate("mixup", cases.at("mixup")) == evaluate("", "[[loss]]\nsmoothing = 0.1"));
    // All 60 records in one batch: the loss of a step before its update.
    for (const auto& [name, tables] :
         {std::pair("one", "[[loss]]\nkind = \"sigmoid\"\nsmoothing = 0.1"),
          {"several", "[[loss]]\nkind = \"sigmoid\"\nweight = 0.5\nlogit_scale = 2"}}) {
        const std::unique_ptr<DataSource> data = data_of(file, name);
        Trainer trainer(recipe_with(tables), test::options_of({"one tower", {"cpu"}}, false, 60), *data);
        trainer.load(from_initial(test::tensors_under(file, "init/"), trainer.layout(), path()));
        CHECK(trainer.step().loss == doctest::Approx(evaluate(name, tables)).epsilon(1e-6));
    }
}

TEST_CASE("two heads with weights, a background class and targets: any division gives the same gradients") {
    const TensorFile file = read_safetensors(path());
    const std::unique_ptr<DataSource> data = data_of(file, "");
    Recipe recipe = recipe_with(R"(
[[loss]]
kind = "sigmoid"
positive_weights = [1, 0.25, 1, 2, 3.5, 6]
weight = 0.3
[[loss]]
class_weights = [5, 0.25, 1, 2, 3.5, 6]
smoothing = 0.1
[mixing]
mixup = 1
cutmix = 1
probability = 0.7
draw = "example")",
                                6);
    recipe.model.label_offset = 1;
    test::check_any_division(recipe, *data);
}

TEST_CASE("a mixed step with streamed images is taken again by the towers that are left") {
    const TensorFile file = read_safetensors(path());
    const std::unique_ptr<DataSource> data = data_of(file, "both");
    const Recipe recipe = recipe_with(cases.at("both"));
    const test::Way streamed{"streamed", {"cpu", "cpu", "cpu"}, {7, 3, 2}, 0, Feeding::streamed};
    Trainer whole(recipe, test::options_of({"one tower", {"cpu"}}, true), *data);
    TrainerOptions options = test::options_of(streamed, true);
    options.outlive_devices = true;
    test::Failure failure;
    options.open_device = [&, opened = 0](std::string_view id,
                                          const OpenOptions& open) mutable -> std::unique_ptr<Device> {
        std::unique_ptr<Device> device = test::reuse_device(id, open);
        if (++opened != 2) return device;
        return std::make_unique<test::ScriptedDevice>(std::move(device), test::failing(failure));
    };
    Trainer rest(recipe, options, *data);
    for (int step = 0; step < 5; ++step) {
        failure.lost = step == 2;
        rest.load(whole.save());
        whole.step();
        rest.step();
        CHECK(rest.has_lost(1) == (step >= 2));
        CHECK(test::relative_norm(rest.gradients(), whole.gradients()) < 1e-5);
    }
}

TEST_CASE("data with more classes than the recipe, or several labels for a softmax, are refused before a "
          "table is made") {
    const TensorFile file = read_safetensors(path());
    const auto says = [&](const std::string& name, const std::string& tables, unsigned classes) {
        try {
            const TableMaker make_tables(recipe_with(tables, classes), *data_of(file, name), 1, true);
        } catch (const InputError& error) {
            return std::string(error.what());
        }
        return std::string("it is sound");
    };
    CHECK(says("", "[[loss]]\nclass_weights = \"balanced\"", 3)
              .find("has 5 classes, but recipe mixed tells only 3") != std::string::npos);
    CHECK(says("several", "[mixing]\nmixup = 1", 5).find("a picture may have several labels") !=
          std::string::npos);
    CHECK(says("several", "[[loss]]\nkind = \"sigmoid\"", 5) == "it is sound");
}

TEST_CASE("a layer may have the name that a kept step's tables have") {
    Recipe recipe = recipe_with(cases.at("mixup"));
    for (Node& node : recipe.model.nodes)
        if (node.name == "conv") node.name = "examples";
    const StateLayout layout = layout_of(recipe);
    const TrainingState state{.state = initial_state(layout, 1)};
    const TensorFile file = to_checkpoint(state, layout, {recipe.name, 1, 60, 0, "", recipe.checksum});
    CHECK(file.tensors.contains("examples/weights"));
    CHECK(from_checkpoint(file, layout, "kept").state == state.state);
}

} // namespace towers
