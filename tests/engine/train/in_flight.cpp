// Steps of a lone tower that are submitted before the one before them has ended.
#include "engine/observers/metrics.h"
#include "engine/train/loop.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"
#include "tests/support/simulated_device.h"

#include <atomic>
#include <cmath>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace towers {
namespace {

constexpr std::uint64_t steps = 9; // of 12 examples, across the end of an epoch of 50

/// What a training leaves.
struct Bits {
    std::vector<float> losses, state;
    bool operator==(const Bits&) const = default;
};

/// `ahead`: whether each step but the last is told that another one follows.
Bits train(const Recipe& recipe, const TrainerOptions& options, const DataSource& data, bool ahead) {
    Trainer trainer(recipe, options, data);
    Bits bits;
    for (std::uint64_t i = 1; i <= steps; ++i) bits.losses.push_back(trainer.step(ahead && i < steps).loss);
    CHECK_FALSE(trainer.is_ahead());
    bits.state = trainer.save().state;
    return bits;
}

/// One dense layer on images of a single pixel, each of which has the value 0 or 1.
Recipe single_pixel_recipe() {
    return parse_recipe("pixel", R"(
[input]
shape = [1, 1, 1]
classes = 2
[network]
layers = [ { name = "logits", kind = "dense", units = 2 } ]
[pipeline]
values = "normalized"
mean = [0.0]
deviation = [1.0]
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

Dataset pixels(std::vector<std::uint8_t> values) {
    std::vector<std::uint32_t> labels(values.size(), 1);
    return {{"pixels", {"one", "another"}, {1, 1, 1}}, std::move(values), std::move(labels)};
}

/// A state in which a pixel that is not 0 makes the loss infinite.
TrainingState explosive(const Trainer& trainer) {
    TrainingState state{.state = initial_state(trainer.layout(), 1)};
    const auto weights = part(std::span(state.state), trainer.layout().find("logits/weights").range);
    weights[0] = 3e38f;
    weights[1] = -3e38f;
    return state;
}

TrainerOptions in_order(const std::string& id) {
    TrainerOptions options = test::options_for({id}, 2);
    options.shuffle = options.distort = false;
    return options;
}

/// Does something after each step.
struct Watcher final : Observer {
    std::string place() const override { return "nowhere"; }
    bool observe(const Progress& progress) override {
        if (after_step) after_step(progress.report.step);
        return false;
    }
    bool tested(const TestReport& report) override {
        tests.push_back(report);
        return false;
    }
    std::function<void(std::uint64_t step)> after_step;
    std::vector<TestReport> tests;
};

LoopOptions loop_of(std::uint64_t steps_in_all) {
    return {.steps = steps_in_all,
            .save_every = 0,
            .keep = 0,
            .log_every = 1,
            .origin = {"cifar10-tutorial", 3, 50, 0, "", test::small_recipe().checksum},
            .global_batch = 12};
}

std::vector<float> state_in(const RunDirectory& run, std::uint64_t step, const Trainer& trainer) {
    const std::filesystem::path path = run.checkpoint_path(step);
    return from_checkpoint(read_safetensors(path), trainer.layout(), path).state;
}

} // namespace

TEST_CASE("steps in flight give the bits of steps one at a time") {
    const Dataset data = test::noise(50);
    const Recipe recipe = test::smooth_recipe("4", R"({ kind = "dropout", keep = 0.5 },)");
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        TrainerOptions options = test::options_for({id}, 12);
        const Bits expected = train(recipe, options, data, false);
        CHECK(train(recipe, options, data, true) == expected);
        options.feed = {Feeding::streamed, 2};
        CHECK(train(recipe, options, data, true) == expected);
        options.micro_batch = 4;
        CHECK(train(recipe, options, data, true) == train(recipe, options, data, false));
    }
}

TEST_CASE("a device that works by itself always has the next step before it ends one") {
    std::string calls;
    TrainerOptions options = test::options_for({"gpu"}, 12);
    options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
        return std::make_unique<test::ScriptedDevice>(
            std::make_unique<test::SimulatedDevice>(std::string(id), [](unsigned) { return 1; }),
            test::Script{.submit = [&] { calls += 's'; }, .wait = [&] { calls += 'w'; }});
    };
    const Dataset data = test::noise(50);
    const auto calls_of = [&](Trainer& trainer) {
        calls.clear();
        for (int i = 0; i < 4; ++i) trainer.step(i < 3);
        return calls;
    };
    const test::VirtualClock clock;
    Trainer trainer(test::small_recipe(), options, data);
    CHECK(calls_of(trainer) == "sswswsww");
    calls.clear();
    trainer.step();
    CHECK(calls == "sw");
    Trainer on_processor(test::small_recipe(), test::options_for({"cpu"}, 12), data);
    on_processor.step(true);
    CHECK_FALSE(on_processor.is_ahead());
    options.trace = std::make_shared<Trace>(2);
    Trainer traced(test::small_recipe(), options, data);
    traced.step(true);
    CHECK_FALSE(traced.is_ahead());
}

TEST_CASE("a step that takes other micro-batches than the one before it does not begin before that ends") {
    const Dataset data = test::noise(50);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        TrainerOptions options = test::options_for({id}, 12);
        for (const Feeding feeding : {Feeding::resident, Feeding::streamed}) {
            CAPTURE(int(feeding));
            options.feed = {feeding, 2};
            options.shares.recorded = {{0, {12}, {1}}, {3, {12}, {2}}, {5, {12}, {1}}, {6, {12}, {3}}};
            CHECK(train(test::small_recipe(), options, data, true) ==
                  train(test::small_recipe(), options, data, false));
        }
    }
}

TEST_CASE("the state cannot be had while a step is in flight") {
    for (const std::string& id : test::device_ids()) {
        if (id == "cpu") continue;
        CAPTURE(id);
        Trainer trainer(test::small_recipe(), test::options_for({id}, 12), test::noise(50));
        const TrainingState state = trainer.save();
        trainer.step(true);
        REQUIRE(trainer.is_ahead());
        CHECK_THROWS_AS(trainer.save(), std::logic_error);
        CHECK_THROWS_AS(trainer.load(state), std::logic_error);
        CHECK_THROWS_AS(trainer.gradients(), std::logic_error);
        CHECK_THROWS_AS(trainer.test(false), std::logic_error);
        CHECK(trainer.step().step == 1);
        CHECK(trainer.save().step == 2);
    }
}

TEST_CASE("a step that diverges leaves the state from before it, though the next one was in flight") {
    // The second batch changes the state; the first and the third diverge.
    const Dataset data = pixels({255, 0, 0, 0, 255, 0});
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        Trainer trainer(single_pixel_recipe(), in_order(id), data);
        TrainingState state = explosive(trainer);
        state.examples = 2;
        trainer.load(state);
        CHECK(std::isfinite(trainer.step().loss));
        CHECK(trainer.save().state != state.state);
        const std::vector<float> after_second = trainer.save().state;

        for (const bool ahead : {false, true}) {
            trainer.load(explosive(trainer));
            for (int again = 0; again < 2; ++again) {
                try {
                    trainer.step(ahead);
                    FAIL_CHECK("it did not diverge");
                } catch (const Diverged& diverged) {
                    REQUIRE(diverged.of.batch.examples.size() == 2);
                    CHECK(diverged.of.batch.examples[0].record == 0);
                    CHECK(diverged.of.batch.examples[1].record == 1);
                }
                CHECK(trainer.steps_done() == 0);
                CHECK(trainer.save().state == explosive(trainer).state);
            }
            // A sound step is not stopped by what came before it.
            trainer.load(state);
            CHECK(trainer.step(ahead).step == 0);
            try {
                trainer.step(ahead);
                FAIL_CHECK("it did not diverge");
            } catch (const Diverged& diverged) {
                CHECK(diverged.of.batch.examples[0].record == 4);
            }
            CHECK(trainer.steps_done() == 1);
            CHECK(trainer.save().state == after_second);
        }
    }
}

TEST_CASE("checkpoints and test passes of a run see exactly the steps after which they come") {
    const Dataset data = test::noise(50), tests = test::noise(7);
    LoopOptions options = loop_of(steps);
    options.save_every = 4;
    options.tests.every = 3;
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        const test::TemporaryFolder folder;
        RunDirectory run(folder.path(), Existing::refuse);
        Trainer trainer(test::small_recipe(), test::options_for({id}, 12), data, test::borrowed(tests));
        const TrainingState before = trainer.save();
        Watcher watcher;
        unsigned in_flight = 0;
        watcher.after_step = [&](std::uint64_t) { in_flight += trainer.is_ahead() ? 1 : 0; };
        CHECK(train(trainer, run, options, false, {&watcher}).how == Ending::finished);
        CHECK(in_flight == (id == "cpu" ? 0 : 4)); // after steps 1, 2, 5 and 7
        trainer.load(before);
        std::size_t passes = 0;
        for (std::uint64_t step = 1; step <= steps; ++step) {
            trainer.step();
            if (step % 4 == 0 || step == steps) CHECK(state_in(run, step, trainer) == trainer.save().state);
            if (step % 3 != 0) continue;
            REQUIRE(passes < watcher.tests.size());
            CHECK(watcher.tests[passes].step == step);
            CHECK(watcher.tests[passes++].evaluation.loss_sum == trainer.test(false)->evaluation.loss_sum);
        }
        CHECK(passes == watcher.tests.size());
    }
}

TEST_CASE("a run that is told to stop ends after the step in flight, with its state") {
    const Dataset data = test::noise(50);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        const test::TemporaryFolder folder;
        RunDirectory run(folder.path(), Existing::refuse);
        Trainer trainer(test::small_recipe(), test::options_for({id}, 12), data);
        const TrainingState before = trainer.save();
        std::atomic<bool> stop = false;
        Watcher watcher;
        watcher.after_step = [&](std::uint64_t step) { stop = stop || step == 3; };
        CHECK(train(trainer, run, loop_of(100), stop, {&watcher}).how == Ending::stopped);
        const std::uint64_t done = id == "cpu" ? 4 : 5;
        CHECK(trainer.steps_done() == done);
        trainer.load(before);
        for (std::uint64_t step = 0; step < done; ++step) trainer.step();
        CHECK(checkpoint_steps(run.path()) == std::vector{done});
        CHECK(state_in(run, done, trainer) == trainer.save().state);
    }
}

} // namespace towers
