// Gradients that overflow with a loss scale cost no step; what overflows without one is a divergence.
#include "engine/train/diverged.h"
#include "engine/train/loop.h"
#include "tests/engine/train/overflows.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/large_gradients.h"
#include "tests/support/networks.h"
#include "tests/support/says.h"
#include "tests/support/scripted_device.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace towers {
namespace {

using namespace test;

std::string message_of(const std::function<void()>& diverging) {
    try {
        diverging();
    } catch (const Diverged& diverged) {
        return diverged.what();
    }
    FAIL_CHECK("it did not diverge");
    return "";
}

} // namespace

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

TEST_CASE("each new lowest loss scale is told once, and not that it falls back to one") {
    const Dataset data = one_bright_step();
    for_each_way([&](TrainerOptions options, bool ahead) {
        /// By step
        const auto notices_from = [&](const LossScale& scale) {
            options.loss_scale = scale;
            Trainer trainer(pixel_recipe(), options, data);
            std::vector<std::string> notices;
            while (trainer.steps_done() < steps)
                notices.push_back(trainer.step(ahead && trainer.steps_done() + 1 < steps).notice);
            return std::pair(notices, trainer.save().loss_scale->scale);
        };
        const auto [notices, low] = notices_from(LossScale{high});
        for (std::uint64_t step = 0; step < steps; ++step)
            CHECK(notices[step] ==
                  (step == bright_step
                       ? fmt::format("gradients overflowed with a loss scale of {}: taken again with {}",
                                     high, low)
                       : ""));
        // It doubles before the bright step, and falls back.
        const auto [again, same] = notices_from(LossScale{low, steps_of_a_loss_scale - 1});
        CHECK(same == low);
        CHECK(std::ranges::count(again, "") == std::ptrdiff_t(steps));
    });
}

TEST_CASE("a tower that fails while a step is repeated is dropped, and the step keeps its smaller scale") {
    const Dataset data = one_bright_step();
    std::vector<float> low; // by run: the scale in the end
    for (unsigned calls = 0; calls < 30; calls += 3) {
        CAPTURE(calls);
        Failure failure{.verb = Failure::Verb::submit};
        TrainerOptions options = in_order({"cpu", "cpu"});
        options.outlive_devices = true;
        options.loss_scale = LossScale{high};
        wrap_tower(options, 1, [&](std::unique_ptr<Device> device) {
            return std::make_unique<ScriptedDevice>(std::move(device), failing(failure));
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
    const Dataset data = labelled({0, 0, 0, 0});
    for (const std::string& id : device_ids())
        for (const std::vector<std::string>& towers :
             {std::vector{id}, std::vector<std::string>{"cpu", id}}) {
            CAPTURE(id);
            CAPTURE(towers.size());
            TrainerOptions options = in_order(towers, 4);
            options.loss_scale = LossScale{};
            Trainer trainer(small_recipe(), options, data);
            const TrainingState state = state_with_gradient(trainer, 1e40);
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

            const TemporaryFolder folder;
            const std::filesystem::path path = folder / "diverged-0.safetensors";
            write_safetensors(path, to_tensors(*diverged, {.recipe = "cifar10-tutorial",
                                                           .seed = 3,
                                                           .records = 4,
                                                           .checksum = 0,
                                                           .settings = "",
                                                           .recipe_checksum = small_recipe().checksum}));
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
                again.step.before.state = state_with_gradient(trainer, each.size).state;
                const Replay replayed = replay(device(id), again.recipe, again.step);
                CHECK(replayed.diverges == each.diverges);
                CHECK(replayed.first.has_value() == each.diverges);
                if (replayed.first) CHECK(replayed.first->tensor == "local4/weights gradient");
            }
        }
}

TEST_CASE("a loss that is not finite is a divergence at once, and its own tower is to blame") {
    // The first image's gradient overflows with the scale; the second makes the loss infinite.
    const Dataset data = pixels({255, 0}, {0, 255});
    for (const std::string& id : device_ids())
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

} // namespace towers
