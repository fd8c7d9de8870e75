// Loss scaling: a scale must change no bit of what stays in range, and an overflow must cost no step.
#include "backends/error.h"
#include "engine/observers/metrics.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/train/diverged.h"
#include "engine/train/loop.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/large_gradients.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace towers {
namespace {

/// What a training leaves.
struct Left {
    std::vector<float> losses, state, gradients;
    bool operator==(const Left&) const = default;
};

Left train(const Recipe& recipe, const TrainerOptions& options, const DataSource& data, std::uint64_t steps) {
    Trainer trainer(recipe, options, data);
    Left left;
    for (std::uint64_t i = 1; i <= steps; ++i) left.losses.push_back(trainer.step(i < steps).loss);
    left.gradients = trainer.gradients();
    left.state = trainer.save().state;
    return left;
}

/// Checks that a forced scale changes neither losses nor gradients nor the state.
void check_bits(const Recipe& recipe, TrainerOptions options, const DataSource& data,
                std::uint64_t steps = 5) {
    const Left expected = train(recipe, options, data, steps);
    options.loss_scale = LossScale{0x1p10f};
    const Left scaled = train(recipe, options, data, steps);
    CHECK(scaled.losses == expected.losses);
    CHECK(scaled.gradients == expected.gradients);
    CHECK(scaled.state == expected.state);
}

/// Batch norm, dropout, two heads, and moving averages.
Recipe recipe_with(const std::string& group, const std::string& optimizer) {
    return parse_recipe("heads",
                        fmt::format(R"(
[input]
shape = [24, 24, 3]
classes = 10
[network]
layers = [
  {{ name = "conv", kind = "conv2d", filters = 8, kernel = 3, stride = 2, bias = false }},
  {{ name = "norm", kind = "batch_norm", group = {}, activation = "relu" }},
  {{ name = "pool", kind = "global_average_pool" }},
  {{ name = "early", kind = "dense", inputs = ["pool"], units = 10 }},
  {{ name = "drop", kind = "dropout", keep = 0.8, inputs = ["pool"] }},
  {{ name = "hidden", kind = "dense", units = 12, activation = "silu" }},
  {{ name = "logits", kind = "dense", units = 10, weight_decay = 0.01 }},
]
[[loss]]
logits = "logits"
smoothing = 0.1
[[loss]]
logits = "early"
weight = 0.3
[pipeline]
kind = "tutorial"
[optimizer]
{}
[averages]
decay = 0.9
[training]
batch = 12
steps = 10
)",
                                    group, optimizer),
                        "heads.toml");
}

const std::vector<std::string> optimizers = {
    "kind = \"sgd\"\nlearning_rate = 0.05\nclip_norm = 0.1",
    "kind = \"momentum\"\nlearning_rate = 0.02\nweight_decay = 1e-3\ndecays = \"all\"",
    "kind = \"momentum\"\nnesterov = true\nlearning_rate = 0.02\nclip_norm = 0.5\nweight_decay = 1e-3",
    "kind = \"rmsprop\"\nlearning_rate = 1e-3\nmomentum = 0.9",
    "kind = \"rmsprop\"\nlearning_rate = 0.01\nmomentum = 0.9\nepsilon = 1.0\nepsilon_inside = true",
    "kind = \"adam\"\nlearning_rate = 1e-3",
    "kind = \"adamw\"\nlearning_rate = 1e-3\nweight_decay = 0.1\nclip_norm = 0.5",
};

/// One dense layer on images of two pixels of 0 to 2^14. With weights near 0 and batches of two equal images,
/// of a value x in the first pixel, the gradients of the weights are near 2^13 x / 255.
Recipe pixel_recipe() {
    return parse_recipe("pixel", R"(
[input]
shape = [1, 2, 1]
classes = 2
[network]
layers = [ { name = "logits", kind = "dense", units = 2, stddev = 1e-9 } ]
[pipeline]
values = "normalized"
mean = [0.0]
deviation = [6.103515625e-05]
[optimizer]
kind = "momentum"
learning_rate = 0.1
[averages]
decay = 0.9
[training]
batch = 2
steps = 10
)",
                        "pixel.toml");
}

Dataset pixels(const std::vector<std::uint8_t>& first, const std::vector<std::uint8_t>& second = {}) {
    std::vector<std::uint8_t> values;
    for (std::size_t i = 0; i < first.size(); ++i) {
        values.push_back(first[i]);
        values.push_back(second.empty() ? 0 : second[i]);
    }
    return {{"pixels", {"one", "another"}, {1, 2, 1}},
            std::move(values),
            std::vector<std::uint32_t>(first.size(), 1)};
}

constexpr std::uint64_t steps = 7, bright_step = 3;
constexpr float high = 0x1p118f; ///< with which the gradients of bright images overflow, and no others

/// Steps of dark images, but for one of bright ones.
Dataset one_bright_step() {
    std::vector<std::uint8_t> values;
    for (std::uint64_t step = 0; step < steps; ++step)
        for (const std::uint8_t dark : {1, 2}) values.push_back(step == bright_step ? 255 : dark);
    return pixels(values);
}

TrainerOptions in_order(const std::vector<std::string>& towers, unsigned global_batch = 2) {
    TrainerOptions options = test::options_for(towers, global_batch);
    options.shuffle = options.distort = false;
    options.learning_rate = 1e-7;
    return options;
}

/// What a run with overflows leaves.
struct Run {
    std::vector<float> losses, scales;
    TrainingState state;
};

/// `ahead`: whether each step but the last is told that another one follows.
Run run_on(Trainer& trainer, std::uint64_t last, bool ahead) {
    Run run;
    while (trainer.steps_done() < last) {
        const std::uint64_t step = trainer.steps_done();
        const StepReport report = trainer.step(ahead && step + 1 < last);
        CHECK(report.step == step);
        run.losses.push_back(report.loss);
        run.scales.push_back(report.loss_scale.value_or(0));
    }
    run.state = trainer.save();
    return run;
}

/// Each way to take the steps of two examples.
void for_each_way(const std::function<void(TrainerOptions options, bool ahead)>& test) {
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        for (const bool ahead : {false, true}) {
            CAPTURE(ahead);
            for (const Feeding feeding : {Feeding::resident, Feeding::streamed}) {
                CAPTURE(int(feeding));
                TrainerOptions lone = in_order({id});
                lone.feed = {feeding, 1};
                test(lone, ahead);
                lone.micro_batch = 1;
                test(lone, ahead);
                TrainerOptions group = in_order({"cpu", id});
                group.feed = {feeding, 1};
                test(group, ahead);
                group.shares.recorded = {{0, {0, 2}}}; // all examples on one
                test(group, ahead);
            }
        }
    }
}

TrainingState through_file(const TrainingState& state, const Trainer& trainer) {
    const test::TemporaryFolder folder;
    const std::filesystem::path path = folder / "state.safetensors";
    write_safetensors(
        path,
        to_checkpoint(
            state, trainer.layout(),
            {.recipe = trainer.recipe().name, .seed = 3, .records = 14, .checksum = 0, .settings = ""}));
    return from_checkpoint(read_safetensors(path), trainer.layout(), path);
}

std::string message_of(const std::function<void()>& diverging) {
    try {
        diverging();
    } catch (const Diverged& diverged) {
        return diverged.what();
    }
    FAIL_CHECK("it did not diverge");
    return "";
}

bool says(const std::string& message, const std::string& part) {
    const bool found = message.find(part) != std::string::npos;
    if (!found) MESSAGE(message);
    return found;
}

} // namespace

TEST_CASE("a loss scale changes no bit of a lone tower's training, with any optimizer, clipping and decay") {
    const Dataset data = test::noise(50);
    for (const std::string& optimizer : optimizers) {
        CAPTURE(optimizer);
        for (const std::string& id : test::device_ids()) {
            CAPTURE(id);
            check_bits(recipe_with("4", optimizer), test::options_for({id}, 12), data);
        }
    }
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        check_bits(test::small_recipe(), test::options_for({id}, 12), data); // LRN, pooling, weight decay
    }
}

TEST_CASE("a loss scale changes no bit of a group's training, exchanges and clipping included") {
    const Dataset data = test::noise(50);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        TrainerOptions options = test::options_for({"cpu", id, "cpu"}, 12);
        options.shares.weights = {3, 2, 1};
        for (const std::string& optimizer : optimizers) {
            CAPTURE(optimizer);
            if (id == "cpu" || optimizer == optimizers[2])
                check_bits(recipe_with("\"batch\"", optimizer), options, data);
        }
        options.shares = {};
        options.shares.recorded = {{0, {0, 12, 0}}, {2, {4, 8, 0}}, {3, {12, 0, 0}}};
        check_bits(recipe_with("4", optimizers[2]), options, data);
    }
    check_bits(test::small_recipe(), test::options_for({"cpu", "cpu"}, 12), data);
}

TEST_CASE("a loss scale changes no bit of a training in micro-batches") {
    const Dataset data = test::noise(50);
    for (const std::string& id : test::device_ids())
        for (const std::vector<std::string>& towers :
             {std::vector{id}, std::vector<std::string>{"cpu", id}}) {
            CAPTURE(id);
            CAPTURE(towers.size());
            TrainerOptions options = test::options_for(towers, 20);
            options.micro_batch = 4;
            check_bits(recipe_with("4", optimizers[2]), options, data, 3);
            check_bits(test::small_recipe(), options, data, 3);
        }
}

TEST_CASE("a step whose scaled gradients overflow is repeated, not skipped") {
    const Dataset data = one_bright_step();
    for_each_way([&](TrainerOptions options, bool ahead) {
        Trainer plain(pixel_recipe(), options, data);
        const Run expected = run_on(plain, steps, ahead);
        options.loss_scale = LossScale{high};
        Trainer scaled(pixel_recipe(), options, data);
        const Run found = run_on(scaled, steps, ahead);
        const float low = found.scales.back();
        CHECK(low <= high / 8);
        CHECK(low >= high / 128);
        for (std::uint64_t step = 0; step < steps; ++step)
            CHECK(found.scales[step] == (step < bright_step ? high : low));
        CHECK(found.losses == expected.losses);
        CHECK(found.state.state == expected.state.state);
        CHECK(found.state.examples == 2 * steps);
        CHECK(found.state.loss_scale == LossScale{low, unsigned(steps - bright_step)});

        options.loss_scale = LossScale{low}; // from the start
        Trainer lower(pixel_recipe(), options, data);
        const Run same = run_on(lower, steps, ahead);
        CHECK(same.losses == found.losses);
        CHECK(same.state.state == found.state.state);
        CHECK(same.scales == std::vector(steps, low));
    });
}

TEST_CASE("a tower that fails while a step is repeated is dropped, and the step keeps its smaller scale") {
    const Dataset data = one_bright_step();
    std::vector<float> low; // by run: the scale in the end
    for (unsigned calls = 0; calls < 30; calls += 3) {
        CAPTURE(calls);
        test::Failure failure{.verb = test::Failure::Verb::submit};
        TrainerOptions options = in_order({"cpu", "cpu"});
        options.outlive_devices = true;
        options.loss_scale = LossScale{high};
        test::wrap_tower(options, 1, [&](std::unique_ptr<Device> device) {
            return std::make_unique<test::ScriptedDevice>(std::move(device), test::failing(failure));
        });
        std::vector<float> losses, state;
        std::vector<SharesFrom> shares;
        {
            Trainer trainer(pixel_recipe(), options, data);
            for (std::uint64_t step = 0; step < steps; ++step) {
                if (step == bright_step) failure.calls_left = calls;
                const StepReport report = trainer.step();
                losses.push_back(report.loss);
                shares.push_back({step, report.shares});
            }
            state = trainer.save().state;
            low.push_back(trainer.save().loss_scale->scale);
            CHECK(trainer.has_lost(1));
        }
        TrainerOptions plain = in_order({"cpu", "cpu"});
        plain.shares.recorded = shares;
        Trainer trainer(pixel_recipe(), plain, data);
        const Run expected = run_on(trainer, steps, false);
        CHECK(losses == expected.losses);
        CHECK(state == expected.state.state);
    }
    CHECK(std::ranges::count(low, low[0]) == std::ptrdiff_t(low.size()));
    CHECK(low[0] < high);
}

TEST_CASE("a run that goes on from a checkpoint before or after an overflow has an undisturbed one's bits") {
    const Dataset data = one_bright_step();
    for_each_way([&](TrainerOptions options, bool ahead) {
        options.loss_scale = LossScale{high, 1994};
        Trainer whole(pixel_recipe(), options, data);
        const Run expected = run_on(whole, steps, ahead);
        for (const std::uint64_t kept : {std::uint64_t(1), bright_step, bright_step + 1}) {
            CAPTURE(kept);
            TrainingState state;
            {
                Trainer first(pixel_recipe(), options, data);
                state = through_file(run_on(first, kept, ahead).state, first);
            }
            options.loss_scale = LossScale{}; // the checkpoint's counts
            Trainer second(pixel_recipe(), options, data);
            second.load(state);
            const Run rest = run_on(second, steps, ahead);
            options.loss_scale = LossScale{high, 1994};
            CHECK(std::ranges::equal(rest.losses, std::span(expected.losses).subspan(kept)));
            CHECK(std::ranges::equal(rest.scales, std::span(expected.scales).subspan(kept)));
            CHECK(rest.state.state == expected.state.state);
            CHECK(rest.state.loss_scale == expected.state.loss_scale);
        }
    });
}

TEST_CASE("a step in flight has the scale to which the step before it leads") {
    const Dataset data = pixels(std::vector<std::uint8_t>(14, 255));
    for_each_way([&](TrainerOptions options, bool ahead) {
        const auto scales_from = [&](const LossScale& scale) {
            options.loss_scale = scale;
            Trainer trainer(pixel_recipe(), options, data);
            return run_on(trainer, 4, ahead).scales;
        };
        CHECK(scales_from({512, 1998}) == std::vector<float>{512, 512, 1024, 1024});
        CHECK(scales_from({largest_loss_scale, 1998}) == std::vector<float>(4, largest_loss_scale));
    });
}

TEST_CASE("an overflow after the scale has doubled takes it back") {
    std::string text = pixel_recipe().text;
    const std::string layers = "layers = [ ";
    text.insert(text.find(layers) + layers.size(), R"({ name = "hidden", kind = "dense", units = 1 }, )");
    const Recipe recipe = parse_recipe("pixel", text, "pixel.toml");
    const Dataset data = pixels(std::vector<std::uint8_t>(14, 255));
    for_each_way([&](TrainerOptions options, bool ahead) {
        options.learning_rate = 0;
        options.loss_scale = LossScale{0x1p16f, 1998};
        Trainer trainer(recipe, options, data);
        TrainingState state = trainer.save();
        const auto weights = [&](const std::string& name) {
            return part(std::span(state.state), trainer.layout().find(name).range);
        };
        // The gradient of hidden/weights is 2^111, in range with a scale of 2^16 but not with 2^17.
        std::ranges::fill(weights("hidden/weights"), 0.0f);
        weights("logits/weights")[0] = 0x1p97f;
        weights("logits/weights")[1] = -0x1p97f;
        trainer.load(state);
        const Run run = run_on(trainer, 5, ahead);
        CHECK(run.scales == std::vector<float>(5, 0x1p16f));
        CHECK(run.state.loss_scale == LossScale{0x1p16f, 3});
    });
}

TEST_CASE("gradients that are infinite without a scale are a divergence, which replays with its scale") {
    const Dataset data = test::labelled({0, 0, 0, 0});
    for (const std::string& id : test::device_ids())
        for (const std::vector<std::string>& towers :
             {std::vector{id}, std::vector<std::string>{"cpu", id}}) {
            CAPTURE(id);
            CAPTURE(towers.size());
            TrainerOptions options = in_order(towers, 4);
            options.loss_scale = LossScale{};
            Trainer trainer(test::small_recipe(), options, data);
            const TrainingState state = test::state_with_gradient(trainer, 1e40);
            trainer.load(state);
            std::optional<DivergedStep> diverged;
            const std::string message = message_of([&] {
                try {
                    trainer.step(true);
                } catch (const Diverged& thrown) {
                    diverged = diverged_step(trainer, thrown.of, data);
                    throw;
                }
            });
            CHECK(says(message,
                       towers.size() == 1 ? "a gradient of tower_0" : "the gradient of local4/weights"));
            CHECK(says(message, "in step 0; try a smaller --lr"));
            CHECK(message.find("bf16") == std::string::npos);
            CHECK(trainer.steps_done() == 0);
            CHECK(trainer.save().state == state.state);
            CHECK(trainer.save().loss_scale == LossScale{1, 0});
            REQUIRE(diverged);

            const test::TemporaryFolder folder;
            const std::filesystem::path path = folder / "diverged-0.safetensors";
            write_safetensors(path,
                              to_tensors(*diverged, {.recipe = "cifar10-tutorial",
                                                     .seed = 3,
                                                     .records = 4,
                                                     .checksum = 0,
                                                     .settings = "",
                                                     .recipe_checksum = test::small_recipe().checksum}));
            DivergedStep again = read_diverged(path);
            CHECK(again.step.before.loss_scale == LossScale{1, 0});
            // Without an overflow of its own, it is the scale that decides.
            struct Case {
                double size;
                float scale;
                bool diverges;
            };
            for (const Case& each : {Case{1e40, 1, true}, Case{1e36, 1, false}, Case{1e36, 2, false},
                                     Case{1e36, 0x1p16f, true}}) {
                CAPTURE(each.size);
                CAPTURE(each.scale);
                again.step.before.loss_scale = LossScale{each.scale};
                again.step.before.state = test::state_with_gradient(trainer, each.size).state;
                const Replay replayed = replay(test::device(id), again.recipe, again.step);
                CHECK(replayed.diverges == each.diverges);
                CHECK(replayed.first.has_value() == each.diverges);
                if (replayed.first) CHECK(replayed.first->tensor == "local4/weights gradient");
            }
        }
}

TEST_CASE("a loss that is not finite is a divergence at once, and its own tower is to blame") {
    // The first image's gradient overflows with the scale; the second makes the loss infinite.
    const Dataset data = pixels({255, 0}, {0, 255});
    for (const std::string& id : test::device_ids())
        for (const Precision precision : {Precision::fp32, Precision::fp16}) {
            CAPTURE(id);
            TrainerOptions options = in_order({"cpu", id});
            options.loss_scale = LossScale{high};
            options.open.precision = precision;
            Trainer trainer(pixel_recipe(), options, data);
            TrainingState state = trainer.save();
            const auto weights = part(std::span(state.state), trainer.layout().find("logits/weights").range);
            weights[0] = weights[1] = 0;
            weights[2] = 3e38f;
            weights[3] = -3e38f;
            trainer.load(state);
            const std::string message = message_of([&] { trainer.step(); });
            CHECK(says(message, "the loss of tower_1 (" + id + ")"));
            CHECK(says(
                message + ".",
                precision == Precision::fp16
                    ? "try a smaller --lr, or --precision bf16: numbers above 65504 are infinite in fp16."
                    : "try a smaller --lr."));
            CHECK(trainer.save().loss_scale == LossScale{high});
            CHECK(trainer.save().state == state.state);
        }
}

TEST_CASE("fp16 scales the loss, and other precisions do not") {
    const Dataset data = test::noise(12);
    for (const Precision precision : all_precisions) {
        TrainerOptions options = test::options_for({"cpu"}, 12);
        options.open.precision = precision;
        Trainer trainer(test::small_recipe(), options, data);
        const bool scales = precision == Precision::fp16;
        CHECK(trainer.step().loss_scale == (scales ? std::optional(65536.0f) : std::nullopt));
        CHECK(trainer.save().loss_scale == (scales ? std::optional(LossScale{65536, 1}) : std::nullopt));
    }
}

TEST_CASE("a step without loss scaling has no launch for it, and one with it needs both halves") {
    const Recipe recipe = recipe_with("4", optimizers[2]);
    const StateLayout layout = layout_of(recipe);
    const auto kernels_of = [](const TrainingPlan& training) {
        std::vector<std::string> names;
        for (const Plan* plan : training.plans())
            for (const Level& level : plan->levels())
                for (const Operation& operation : level) names.emplace_back(kernel_name(operation));
        std::ranges::sort(names);
        return names;
    };
    for (const unsigned most : {0u, 4u}) {
        NetworkSpec spec = test::spec_of(recipe, layout, 12, 50), scaled = spec;
        spec.most = scaled.most = most;
        scaled.scales_loss = true;
        UpdateSpec update = test::update_of(recipe, layout), unscales = update;
        unscales.scales_loss = true;
        std::vector<std::string> expected = kernels_of(plan_single_step(spec, update));
        for (const char* const none : {"unscale_gradients", "multiply"})
            CHECK(std::ranges::count(expected, none) == 0);
        expected.insert(expected.end(), {"multiply", "multiply", "unscale_gradients"}); // for two heads
        if (most > 0) expected.emplace_back("copy"); // of the step's numbers to the pass
        std::ranges::sort(expected);
        CHECK(kernels_of(plan_single_step(scaled, unscales)) == expected);
        CHECK_THROWS_AS(plan_single_step(scaled, update), std::logic_error);
        CHECK_THROWS_AS(plan_step_alone(spec, unscales), std::logic_error);
    }
}

TEST_CASE("a checkpoint's loss scale belongs to runs that scale; a damaged one is refused") {
    const Dataset data = test::noise(12);
    TrainerOptions options = test::options_for({"cpu"}, 12);
    Trainer plain(test::small_recipe(), options, data);
    options.loss_scale = LossScale{512, 3};
    Trainer scaled(test::small_recipe(), options, data);

    scaled.load(plain.save());
    CHECK(scaled.save().loss_scale == LossScale{512, 3});
    plain.load({.state = plain.save().state, .loss_scale = LossScale{2, 1}});
    CHECK_FALSE(plain.save().loss_scale);
    CHECK_FALSE(plain.step().loss_scale);

    const CheckpointOrigin origin{
        .recipe = "cifar10-tutorial", .seed = 3, .records = 12, .checksum = 0, .settings = ""};
    CHECK_FALSE(to_checkpoint(plain.save(), plain.layout(), origin).metadata.contains("loss_scale"));
    const TensorFile sound = to_checkpoint(scaled.save(), scaled.layout(), origin);
    CHECK(sound.metadata.at("loss_scale") == "512");
    CHECK(sound.metadata.at("loss_scale_steps") == "3");
    using Damage = std::pair<const char*, const char*>;
    for (const Damage& damage :
         {Damage("loss_scale", "3"), Damage("loss_scale", "512x"), Damage("loss_scale", ""),
          Damage("loss_scale", "nan"), Damage("loss_scale_steps", "2000"), Damage("loss_scale_steps", "-1"),
          Damage("loss_scale_steps", "4294967297")}) {
        INFO(damage.first, " = ", damage.second);
        TensorFile damaged = sound;
        damaged.metadata[damage.first] = damage.second;
        const std::string message =
            test::input_error([&] { from_checkpoint(damaged, scaled.layout(), "that.safetensors"); });
        CHECK(says(message, "that.safetensors: "));
        CHECK(says(message, "loss_scale"));
    }
}

TEST_CASE("metrics have each step's loss scale, and a resumed run writes them again as they were") {
    const Dataset data = one_bright_step();
    const Recipe recipe = pixel_recipe();
    const LoopOptions loop{.steps = steps,
                           .save_every = bright_step,
                           .keep = 0,
                           .log_every = 1,
                           .origin = {"pixel", 3, data.size(), 0, "", recipe.checksum},
                           .global_batch = 2};
    for (const std::string& id : test::device_ids())
        for (const std::vector<std::string>& towers :
             {std::vector{id}, std::vector<std::string>{"cpu", id}}) {
            CAPTURE(id);
            CAPTURE(towers.size());
            TrainerOptions options = in_order(towers);
            options.loss_scale = LossScale{high};
            const test::TemporaryFolder folder;
            {
                Trainer trainer(recipe, options, data);
                RunDirectory run(folder.path(), Existing::refuse);
                Metrics metrics(run, data.size());
                train(trainer, run, loop, false, {&metrics});
            }
            const std::string whole = test::read_text(metrics_path_in(folder.path()));
            std::istringstream text(whole);
            std::uint64_t step = 0;
            for (std::string line; std::getline(text, line); ++step) {
                const nlohmann::json read = nlohmann::json::parse(line);
                CHECK(read.at("step") == step);
                CHECK((read.at("loss_scale") == high) == (step < bright_step));
            }
            CHECK(step == steps);
            const TensorFile last = find_checkpoint(folder.path(), steps).file;
            options.loss_scale = LossScale{};
            Trainer trainer(recipe, options, data);
            RunDirectory run(folder.path(), Existing::resume);
            resume(trainer, recipe, find_checkpoint(folder.path(), bright_step), loop.origin);
            rewind(run, trainer);
            CHECK(test::read_text(metrics_path_in(folder.path())).size() < whole.size());
            Metrics metrics(run, data.size());
            train(trainer, run, loop, false, {&metrics});
            CHECK(test::read_text(metrics_path_in(folder.path())) == whole);
            const TensorFile again = find_checkpoint(folder.path(), steps).file;
            CHECK(again.metadata == last.metadata);
            CHECK(from_checkpoint(again, trainer.layout(), "again").state ==
                  from_checkpoint(last, trainer.layout(), "last").state);
        }
}

} // namespace towers
