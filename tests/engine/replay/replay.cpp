// When a training diverges, its file must name the first bad tensor and suffice to repeat the step on any
// device.
#include "engine/recipes/recipe_plan.h"
#include "engine/train/diverged.h"
#include "engine/train/loop.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/large_gradients.h"
#include "tests/support/networks.h"
#include "tests/support/says.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <doctest/doctest.h>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace towers {
namespace {

using test::says;

constexpr unsigned batch = 4;

/// Four records with these labels.
struct Run {
    test::TemporaryFolder folder;
    std::string message;

    std::filesystem::path file() const { return folder / "diverged-0.safetensors"; }
};

/// Trains, and expects the first step to diverge.
void diverge(Run& run, const TrainerOptions& options, const Dataset& data, double size) {
    Trainer trainer(test::small_recipe(), options, data);
    const TrainingState state = test::state_with_gradient(trainer, size);
    trainer.load(state);
    RunDirectory directory(run.folder.path(), Existing::refuse);
    const LoopOptions loop{
        .steps = 1,
        .save_every = 0,
        .keep = 0,
        .log_every = 1,
        .origin = {"cifar10-tutorial", options.seed, data.size(), 0, "", test::small_recipe().checksum},
        .global_batch = batch,
        .data = &data};
    try {
        train(trainer, directory, loop, false, {});
    } catch (const Diverged& diverged) {
        run.message = diverged.what();
    }
    CHECK(trainer.save().state == state.state);
}

TrainerOptions in_order(std::vector<std::string> towers) {
    TrainerOptions options = test::options_for(std::move(towers), batch);
    options.shuffle = options.distort = false;
    return options;
}

/// Checks that the file's step has its first bad number in local4's gradient, on every device.
void check_replays(const DivergedStep& diverged) {
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        const Replay found = replay(test::device(id), diverged.recipe, diverged.step);
        CHECK(found.diverges);
        REQUIRE(found.first);
        CHECK(found.first->tensor == "local4/weights gradient");
        CHECK(found.first->operation == "local4 weights gradient");
        CHECK(found.first->count == elements_of(found.first->shape));
        CHECK(found.first->value == "-inf");
    }
}

} // namespace

TEST_CASE("a diverged step of a single tower is kept with its first bad tensor, and repeats everywhere") {
    const Dataset data = test::labelled({0, 0, 0, 0});
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        Run run;
        diverge(run, in_order({id}), data, 6e38);
        CHECK(
            says(run.message, "done again on " + id +
                                  ", the step is first not finite in tensor 'local4/weights gradient' of "
                                  "local4 weights gradient, 168 of 168 numbers, the first at [0, 0]: -inf"));
        CHECK(says(run.message, run.file().string() + " keeps the step"));
        const DivergedStep diverged = read_diverged(run.file());
        CHECK(diverged.device == id);
        CHECK(diverged.found->device == id);
        CHECK(diverged.found->replay.diverges);
        CHECK(std::ranges::equal(diverged.step.images, data.images()));
        check_replays(diverged);
    }
}

TEST_CASE("with several towers only the examples of the one that diverged are kept") {
    const Dataset data = test::labelled({1, 1, 0, 0});
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        Run run;
        diverge(run, in_order({"cpu", id}), data, 2e39);
        CHECK(says(run.message, "the gradient of local4/weights of tower_1 (" + id + ")"));
        const DivergedStep diverged = read_diverged(run.file());
        CHECK(diverged.tower == 1);
        CHECK(diverged.device == id);
        CHECK(diverged.found->device == id);
        CHECK(diverged.step.global_batch == batch);
        CHECK(diverged.step.batch.examples == std::vector<Example>{{0, 2, 0, 0}, {1, 3, 0, 0}});
        CHECK(std::ranges::equal(diverged.step.images, data.images().subspan(2 * 3072)));
        CHECK(diverged.step.seed == 3);
        CHECK(!diverged.step.distort);
        CHECK(diverged.step.learning_rate == doctest::Approx(0.1));
        check_replays(diverged);
    }
}

TEST_CASE("a sum of finite gradients that overflows is recognized, and kept with the whole batch") {
    const Dataset data = test::labelled({0, 0, 0, 0});
    Run run;
    diverge(run, in_order({"cpu", "cpu"}), data, 6e38);
    CHECK(says(run.message,
               "the sum of the towers' losses or gradients, each of which is finite, is infinite"));
    const DivergedStep diverged = read_diverged(run.file());
    CHECK(diverged.step.batch.examples.size() == batch);
    check_replays(diverged);
}

TEST_CASE("a replay does what the tower did, random distortions included") {
    // A step diverges when its logits exceed some size, which depends on its images. Training and replay must
    // agree on that size, however close to it the logits are.
    const Dataset data = test::noise(50);
    for (const std::uint64_t seed : {1, 2}) {
        CAPTURE(seed);
        TrainerOptions options = test::options_for({"cpu"}, batch);
        options.seed = seed;
        Trainer trainer(test::small_recipe(), options, data);
        std::vector<Example> examples(batch);
        Sampler(std::uint32_t(data.size()), seed, true).fill(0, examples);
        float finite = 1, diverging = 1e6f;
        for (int i = 0; i < 20; ++i) {
            const float scale = std::sqrt(finite * diverging);
            TrainingState state{.state = initial_state(trainer.layout(), trainer.options().seed)};
            const auto multiply = [&](const std::string& variable, float factor) {
                for (float& each : part(std::span(state.state), trainer.layout().find(variable).range))
                    each *= factor;
            };
            multiply("local4/weights", 1e7f * scale);
            multiply("softmax_linear/weights", 1e29f);
            trainer.load(state);
            const bool again =
                examine(diverged_step(trainer,
                                      {0, 0.1, {.examples = examples, .strangers = {}, .tables = {}}}, data),
                        trainer.options())
                    .replay.diverges;
            bool diverged = false;
            try {
                trainer.step();
            } catch (const Diverged&) {
                diverged = true;
            }
            CAPTURE(scale);
            CHECK(again == diverged);
            (diverged ? diverging : finite) = scale;
        }
        CHECK(finite > 1);
        CHECK(diverging < 1e6f);
    }
}

TEST_CASE("a replay needs memory for its own examples only, whatever the numbers of their records") {
    const Dataset data = test::labelled({0, 0, 0, 0});
    Run run;
    diverge(run, in_order({"cpu"}), data, 6e38);
    DivergedStep diverged = read_diverged(run.file());
    for (std::size_t i = 0; i < batch; ++i) {
        CHECK(diverged.step.batch.examples[i].slot == i);
        diverged.step.batch.examples[i].record =
            4'000'000'000u + std::uint32_t(i) * 1000; // 12 TB if they were places
    }
    check_replays(diverged);
}

TEST_CASE("a tensor that several operations write hides no divergence") {
    const Recipe recipe = test::smooth_recipe(
        "4", "{ name = \"join\", kind = \"concatenate\", inputs = [\"norm\", \"norm\", \"norm\"] },");
    const Dataset data = test::labelled({0, 1, 2, 3});
    Trainer trainer(recipe, in_order({"cpu"}), data);
    TrainingState state{.state = initial_state(trainer.layout(), trainer.options().seed)};
    const auto multiply = [&](const char* variable, float factor) {
        for (float& each : part(std::span(state.state), trainer.layout().find(variable).range))
            each *= factor;
    };
    for (const float factor : {1.0f, 1e35f}) {
        multiply("norm/gamma", factor);
        multiply("logits/weights", factor > 1 ? 1e5f : 1);
        trainer.load(state);
        std::vector<Example> examples;
        for (unsigned i = 0; i < batch; ++i) examples.push_back({.record = i});
        const LoneStep step =
            diverged_step(trainer, {0, 0.1, {.examples = examples, .strangers = {}, .tables = {}}}, data)
                .step;
        for (const std::string& id : test::device_ids()) {
            CAPTURE(id);
            const Replay found = replay(test::device(id), recipe, step);
            CHECK(found.diverges == (factor > 1));
            CHECK(found.first.has_value() == (factor > 1));
            if (found.first) CHECK(found.first->operation == "logits forward");
        }
    }
}

TEST_CASE("a step that stays finite on another device is reported so") {
    const Dataset data = test::labelled({0, 0, 0, 0});
    Run run;
    diverge(run, in_order({"cpu"}), data, 6e38);
    DivergedStep diverged = read_diverged(run.file());
    for (float& value : diverged.step.before.state) value *= 1e-3f;
    const Replay found = replay(test::device("cpu"), diverged.recipe, diverged.step);
    CHECK(!found.diverges);
    CHECK(!found.first);
    CHECK(describe({"cpu", found}) == "done again on cpu, the step stays finite");
}

TEST_CASE("a parameter that is not finite before the step is reported so") {
    const Dataset data = test::labelled({0, 0, 0, 0});
    Run run;
    diverge(run, in_order({"cpu"}), data, 6e38);
    DivergedStep diverged = read_diverged(run.file());
    const StateLayout layout = layout_of(diverged.recipe);
    for (const char* name : {"local3/weights", "conv2/biases"}) {
        part(std::span(diverged.step.before.state), layout.find(name).range)[1] =
            std::numeric_limits<float>::infinity();
        const Replay found = replay(test::device("cpu"), diverged.recipe, diverged.step);
        CHECK(found.diverges);
        REQUIRE(found.first);
        CHECK(found.first->tensor == name);
        CHECK(says(describe(*found.first), "before the step, 1 of "));
    }
}

TEST_CASE("a step that cannot be repeated on its device is repeated on cpu; a failure there loses no more") {
    const Dataset data = test::labelled({0, 0, 0, 0});
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        TrainerOptions options = in_order({id});
        int opened = 0;
        options.open_device = [&](std::string_view name, const OpenOptions& open) {
            if (opened++ > 0) throw DeviceError("no second device");
            return test::reuse_device(name, open);
        };
        Run run;
        diverge(run, options, data, 6e38);
        CHECK(says(run.message, "Model diverged with loss = "));
        CHECK(says(run.message, "the run has no earlier checkpoint"));
        const std::optional<Finding> found = read_diverged(run.file()).found;
        CHECK(found.has_value() == (id != "cpu"));
        if (found)
            CHECK(found->device == "cpu");
        else
            CHECK(says(run.message, "it could not be done again to see where it begins: no second device"));
    }
}

TEST_CASE("a diverged step is repeated in its precision, which the file keeps; cpu then rounds as units do") {
    const Dataset data = test::labelled({0, 0, 0, 0});
    for (const Precision precision : all_precisions) {
        CAPTURE(name_of(precision));
        TrainerOptions options = in_order({"cpu"});
        options.open.precision = precision;
        std::vector<OpenOptions> opened;
        options.open_device = [&](std::string_view name, const OpenOptions& open) {
            opened.push_back(open);
            return open_device(name, open);
        };
        Run run;
        diverge(run, options, data, 6e38);
        const DivergedStep diverged = read_diverged(run.file());
        CHECK(diverged.precision == precision);
        CHECK_FALSE(diverged.round_operands);
        REQUIRE(opened.size() == 2);
        CHECK(opened[1].precision == precision);
    }
}

TEST_CASE("a full disk costs only the file, and the message says so") {
    Run run;
    {
        const test::FullDisk disk(10'000);
        diverge(run, in_order({"cpu"}), test::labelled({0, 0, 0, 0}), 6e38);
    }
    CHECK(says(run.message, "the step is not kept: cannot write " + run.file().string()));
    CHECK(says(run.message, "try a smaller --lr"));
    CHECK(says(run.message, "the run has no earlier checkpoint"));
    CHECK(!std::filesystem::exists(run.file()));
}

TEST_CASE("a damaged file of a diverged step is refused with one line that names it") {
    const Dataset data = test::labelled({0, 0, 0, 0});
    Run run;
    diverge(run, in_order({"cpu"}), data, 6e38);
    const TensorFile sound = read_safetensors(run.file());
    const std::filesystem::path path = run.folder / "damaged";
    const auto refuses = [&](const TensorFile& file) {
        write_safetensors(path, file);
        return says(test::input_error([&] { read_diverged(path); }), path.string());
    };
    for (const std::string key : {"recipe", "recipe_text", "step", "examples", "seed", "tower", "device",
                                  "global_batch", "learning_rate", "distort", "found"}) {
        CAPTURE(key);
        TensorFile file = sound;
        file.metadata.erase(key);
        CHECK(refuses(file));
        if (key == "recipe" || key == "device") continue; // may be anything
        file.metadata.emplace(key, "odd");
        CHECK(refuses(file));
    }
    for (const char* name : {"examples/records", "examples/epochs", "examples/labels"}) {
        CAPTURE(name);
        TensorFile file = sound;
        file.words.erase(name);
        CHECK(refuses(file));
        file.words[name] = {{2}, {0, 1}};
        CHECK(refuses(file));
        file.words[name] = {{0}, {}};
        CHECK(refuses(file));
    }
    TensorFile file = sound;
    file.words["examples/labels"].values[2] = 10;
    CHECK(refuses(file));
    file = sound;
    file.bytes.clear();
    CHECK(refuses(file));
    file.bytes["examples/images"] = {{4, 3, 8, 8}, std::vector<std::uint8_t>(768)};
    CHECK(refuses(file));
    file = sound;
    file.tensors.erase("conv1/weights");
    CHECK(refuses(file));
    file = sound;
    file.metadata.at("global_batch").assign(1, '3');
    CHECK(refuses(file));
}

} // namespace towers
