#include "backends/error.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"

#include <algorithm>
#include <cstdint>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

namespace towers {
namespace {

/// Different shares of `global` examples for each step, in whole groups, some with idle towers.
std::vector<SharesFrom> random_shares(std::uint64_t steps, unsigned global, unsigned group, unsigned towers,
                                      unsigned seed) {
    std::mt19937 random(seed);
    std::vector<SharesFrom> recorded;
    for (std::uint64_t step = 0; step < steps; ++step) {
        std::vector<unsigned> shares(towers);
        for (unsigned unit = 0; unit < global / group; ++unit)
            shares[std::min(random() % towers, random() % towers)] += group;
        recorded.push_back({step, shares});
    }
    return recorded;
}

/// The states before each step.
std::vector<TrainingState> states_of(const Recipe& recipe, const TrainerOptions& options, const Dataset& data,
                                     std::size_t steps) {
    Trainer trainer(recipe, options, data);
    std::vector<TrainingState> states;
    for (std::size_t i = 0; i < steps; ++i) {
        states.push_back(trainer.save());
        trainer.step();
    }
    return states;
}

/// Notes if the others repeat the step, for which they make recordings, before all seconds of the silence
/// have passed: a tower was given up too early.
test::Script noting_haste(const std::shared_ptr<test::Silence>& silence, bool& hasty) {
    return {.record = [=, &hasty](std::vector<Command>&) { hasty = hasty || !silence->is_over(); }};
}

/// Its batch norm spans the global batch, so that towers wait for each other's sums within a step.
Recipe joined_recipe() { return test::smooth_recipe("\"batch\""); }

} // namespace

TEST_CASE("the loss is the mean over the global batch, weighted by share, and each tower's own is kept") {
    const Dataset data = test::noise(50);
    const StepReport alone = Trainer(test::small_recipe(), test::options_for({"cpu"}, 12), data).step();
    TrainerOptions options = test::options_for({"cpu", "cpu"}, 12);
    options.shares.weights = {3, 1};
    const StepReport both = Trainer(test::small_recipe(), options, data).step();
    CHECK(both.loss == doctest::Approx(alone.loss).epsilon(1e-5));
    REQUIRE(both.tower_losses.size() == 2);
    CHECK(both.tower_losses[0] != both.tower_losses[1]);
    CHECK(both.loss == doctest::Approx(0.75 * both.tower_losses[0] + 0.25 * both.tower_losses[1]));
    options.quirks.last_tower_loss = true;
    const StepReport last = Trainer(test::small_recipe(), options, data).step();
    CHECK(last.loss == both.tower_losses[1]);
}

TEST_CASE("a diverged step names its tower and leaves the last good parameters") {
    const Dataset data = test::noise(50);
    for (const std::vector<std::string>& towers :
         {std::vector<std::string>{"cpu"}, std::vector<std::string>{"cpu", "cpu"}}) {
        Trainer trainer(test::small_recipe(), test::options_for(towers, 4), data);
        TrainingState state{.state = initial_state(trainer.layout(), trainer.options().seed)};
        // One NaN weight poisons every loss.
        state.state[0] = std::numeric_limits<float>::quiet_NaN();
        trainer.load(state);
        std::string message;
        try {
            trainer.step();
        } catch (const Diverged& diverged) {
            message = diverged.what();
        }
        CHECK(message.find("Model diverged with loss = NaN") != std::string::npos);
        CHECK(message.find("tower_0 (cpu)") != std::string::npos);
        CHECK(message.find("step 0") != std::string::npos);
        const TrainingState after = trainer.save();
        CHECK(after.step == 0);
        CHECK(std::equal(after.state.begin() + 1, after.state.end(), state.state.begin() + 1));
    }
}

TEST_CASE("an infinite gradient stops the training though the loss is finite") {
    // The last layer's weights are so large that the previous layer's gradient overflows, but not the loss.
    const Dataset data = test::noise(50);
    for (const std::vector<std::string>& towers :
         {std::vector<std::string>{"cpu"}, std::vector<std::string>{"cpu", "cpu"}}) {
        Trainer trainer(test::small_recipe(), test::options_for(towers, 4), data);
        TrainingState state{.state = initial_state(trainer.layout(), trainer.options().seed)};
        std::ranges::fill(state.state, 0.0f);
        for (const VariableSlot& slot : trainer.layout().variables) {
            float* const values = state.state.data() + slot.range.offset / sizeof(float);
            const std::size_t count = slot.variable.elements();
            // local4's output is 1e3 everywhere, the logits are zero, and dlogits * 1e38 * 12 is infinite
            if (slot.variable.name == "local4/biases") std::fill(values, values + count, 1.0f);
            if (slot.variable.name == "local3/biases") std::fill(values, values + count, 1.0f);
            if (slot.variable.name == "softmax_linear/weights")
                for (std::size_t i = 0; i < count; ++i) values[i] = i / 10 % 2 == 0 ? 3e38f : -3e38f;
            if (slot.variable.name == "local4/weights") std::fill(values, values + count, 1e3f);
        }
        trainer.load(state);
        CHECK_THROWS_AS(trainer.step(), Diverged);
        CHECK(trainer.save().state == state.state);
    }
}

TEST_CASE("a tower whose device refuses a later part of a step ends safely while the first part runs") {
    const Dataset data = test::noise(50);
    const unsigned messages = validation_messages();
    // In the second, the other tower waits for the refusing one's part of batch norm's statistics.
    for (const Recipe& recipe : {test::small_recipe({8, 16, 1000, 12}),
                                 find_recipe("cifar10-resnet20", {"defaults.batch_norm.group=batch"})})
        for (const std::string& id : test::device_ids()) {
            CAPTURE(recipe.name);
            CAPTURE(id);
            test::Failure failure;
            TrainerOptions options = test::options_for({"cpu", id}, 4);
            test::wrap_tower(options, 1, [&](std::unique_ptr<Device> device) {
                return std::make_unique<test::ScriptedDevice>(std::move(device), test::failing(failure));
            });
            Trainer trainer(recipe, options, data);
            REQUIRE(trainer.own_tower(1)->segments().size() > 1);
            failure.calls_left = 1; // submissions
            CHECK_THROWS_WITH_AS(trainer.step(), "refused", DeviceError);
        }
    CHECK(validation_messages() == messages);
}

TEST_CASE("the same run twice gives the same bits, on every device and on several towers") {
    const Dataset data = test::noise(50);
    std::vector<std::vector<std::string>> choices;
    for (const std::string& id : test::device_ids()) choices.push_back({id});
    choices.push_back({"cpu", test::device_ids().front()});
    for (const auto& towers : choices) {
        CAPTURE(towers.front());
        TrainingState states[2];
        for (TrainingState& state : states) {
            Trainer trainer(test::small_recipe(), test::options_for(towers, 10), data);
            for (int i = 0; i < 3; ++i) trainer.step();
            state = trainer.save();
        }
        CHECK(states[0].state == states[1].state);
    }
}

TEST_CASE("steps with shares that change give the single tower's gradients, and again the same bits") {
    const Dataset data = test::noise(50);
    const std::size_t steps = 8;
    for (const Recipe& recipe : {test::small_recipe(), joined_recipe()})
        for (const std::string& id : test::device_ids()) {
            CAPTURE(recipe.name);
            CAPTURE(id);
            const std::vector<TrainingState> alone =
                states_of(recipe, test::options_for({"cpu"}, 12), data, steps);
            TrainerOptions options = test::options_for({"cpu", id, "cpu"}, 12);
            options.shares.recorded = random_shares(steps, 12, 1, 3, 5);
            std::vector<double> distances;
            Trainer trainer(recipe, options, data), one(recipe, test::options_for({"cpu"}, 12), data);
            for (const TrainingState& state : alone) {
                trainer.load(state);
                one.load(state);
                const StepReport report = trainer.step();
                CHECK(report.shares == shares_at(options.shares.recorded, state.step).shares);
                CHECK(report.loss == doctest::Approx(one.step().loss).epsilon(1e-4));
                distances.push_back(test::relative_norm(trainer.gradients(), one.gradients()));
            }
            std::ranges::sort(distances); // the median: see gradient_distance() in split.cpp
            CHECK(distances[steps / 2] < 1e-5);
            CHECK(states_of(recipe, options, data, steps).back().state ==
                  states_of(recipe, options, data, steps).back().state);
        }
}

TEST_CASE("a tower whose device fails is dropped, and the run ends as if it had never existed") {
    using Verb = test::Failure::Verb;
    const Dataset data = test::noise(50);
    const Recipe recipe = joined_recipe();
    constexpr std::uint64_t steps = 6;
    const auto train = [&](const TrainerOptions& options, std::string& notices) {
        Trainer trainer(recipe, options, data);
        for (std::uint64_t i = 0; i < steps; ++i) notices += trainer.step().notice;
        return trainer.save();
    };
    std::string nothing;
    const TrainingState alone = train(test::options_for({"cpu"}, 12), nothing);
    unsigned lost = 0, hung = 0;
    for (unsigned seed = 0; seed < 200; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const unsigned towers = 2 + random() % 3, victim = random() % towers;
        TrainerOptions options = test::options_for(std::vector<std::string>(towers, "cpu"), 12);
        options.open.threads = 1;
        options.outlive_devices = true;
        if (seed % 2 == 1) options.trace = std::make_shared<Trace>(2);
        // Changing shares make it allocate and record within the run.
        if (random() % 2 == 0)
            options.shares.recorded = random_shares(steps, 12, 1, towers, seed);
        else
            options.shares.automatic = random() % 2 == 0;
        test::Failure failure{.verb = Verb(random() % 4)};
        std::uint64_t failing_step = random() % steps;
        // Where the group waits for it, before the end of its part of a step, and not where a tower records
        // for another share, which automatic ones ask for when the machine is busy
        const auto silence = std::make_shared<test::Silence>();
        const bool hangs = options.shares.recorded.empty() && !options.shares.automatic && random() % 2 == 0;
        if (hangs) {
            failure.verb = random() % 2 == 0 ? Verb::submit : Verb::wait;
            failure.silence = silence;
            options.patience = Patience(1e6, test::time_of(silence));
        }
        test::wrap_tower(options, victim, [&](std::unique_ptr<Device> device) {
            return std::make_unique<test::ScriptedDevice>(std::move(device), test::failing(failure));
        });
        Trainer trainer(recipe, options, data);
        std::string notices;
        for (std::uint64_t i = 0; i < steps; ++i) {
            if (i == failing_step) {
                silence->begin({1e8});
                // A tower's step has at least three submissions before its end: two parts, a download.
                if (trainer.last_shares()[victim] > 0)
                    CHECK(trainer.own_tower(victim)->segments().size() >= 2);
                failure.calls_left = random() % (hangs ? 3 : 4);
            }
            const StepReport report = trainer.step();
            notices += report.notice;
            CHECK(std::accumulate(report.shares.begin(), report.shares.end(), 0u) == 12);
            if (failure.lost) CHECK(report.shares[victim] == 0);
        }
        silence->end();
        lost += failure.lost;
        hung += failure.lost && hangs;
        const auto told = [&](const char* what) {
            return notices.find(fmt::format("tower_{} (cpu) {}", victim, what)) != std::string::npos;
        };
        // A tower that refuses a new share may get none before it is tried again.
        CHECK(failure.lost == (told("failed") || told("cannot take")));
        CHECK(trainer.steps_done() == steps);
        CHECK(test::relative_norm(trainer.save().state, alone.state) < 1e-4);
    }
    CHECK(lost > 100); // some verbs are not called again
    CHECK(hung > 10);
}

TEST_CASE("devices that do not answer are dropped too, even if others wait for their part of a batch norm") {
    const Dataset data = test::noise(50);
    for (const Recipe& recipe : {test::small_recipe(), joined_recipe()})
        for (const std::vector<std::size_t>& victims :
             std::vector<std::vector<std::size_t>>{{0}, {2}, {0, 1}})
            for (const bool another_fails : {false, true}) {
                CAPTURE(recipe.name);
                CAPTURE(victims);
                CAPTURE(another_fails);
                TrainerOptions options = test::options_for({"cpu", "cpu", "cpu", "cpu"}, 12);
                options.open.threads = 1;
                options.outlive_devices = true;
                constexpr double timeout = 1e6; // much more than nine steps
                const auto silence = std::make_shared<test::Silence>();
                options.patience = Patience(timeout, test::time_of(silence));
                test::Failure failure{.verb = test::Failure::Verb::wait};
                bool hasty = false;
                std::size_t opened = 0;
                options.open_device = [&](std::string_view id,
                                          const OpenOptions& open) -> std::unique_ptr<Device> {
                    const std::size_t i = opened++;
                    const bool hangs = std::ranges::find(victims, i) != victims.end();
                    return std::make_unique<test::ScriptedDevice>(test::reuse_device(id, open),
                                                                  hangs    ? test::hanging(silence)
                                                                  : i == 3 ? test::failing(failure)
                                                                           : noting_haste(silence, hasty));
                };
                Trainer trainer(recipe, options, data);
                for (int i = 0; i < 3; ++i) CHECK(trainer.step().notice.empty());
                // The timeout alone is less than a step may take. After a failure, others get it once more.
                silence->begin(std::vector<double>(another_fails ? 3 : 2, timeout));
                if (another_fails) failure.calls_left = 0;
                const StepReport report = trainer.step();
                CAPTURE(report.notice);
                CHECK(silence->is_over());
                CHECK_FALSE(hasty);
                std::vector<bool> gone(4);
                for (const std::size_t victim : victims) gone[victim] = true;
                if (another_fails) gone[3] = true;
                for (std::size_t i = 0; i < 4; ++i) {
                    CHECK((report.shares[i] == 0) == gone[i]);
                    CHECK((report.notice.find(fmt::format("tower_{} (cpu) failed", i)) !=
                           std::string::npos) == gone[i]);
                }
                CHECK(report.notice.find("1000000 s more than a step should take") != std::string::npos);
                silence->end(); // their threads go on, and must not disturb
                for (int i = 0; i < 3; ++i) CHECK(trainer.step().notice.empty());
                CHECK(trainer.steps_done() == 7);
            }
}

TEST_CASE("a device that does not answer in the first step is dropped too") {
    const auto silence = std::make_shared<test::Silence>();
    TrainerOptions options = test::options_for({"cpu", "cpu"}, 12);
    options.outlive_devices = true;
    options.patience = Patience(60, test::time_of(silence));
    bool hasty = false;
    options.open_device = [&, first = true](std::string_view id, const OpenOptions& open) mutable {
        return std::make_unique<test::ScriptedDevice>(
            test::reuse_device(id, open),
            std::exchange(first, false) ? noting_haste(silence, hasty) : test::hanging(silence));
    };
    Trainer trainer(test::small_recipe(), options, test::noise(50));
    // At the least rate of a processor
    const double expected = (trainer.own_tower(0)->flops() + trainer.own_tower(1)->flops()) / 1e9;
    silence->begin({expected + 600 - 1e-3, 2e-3});
    const StepReport report = trainer.step();
    CHECK(report.shares == std::vector{12u, 0u});
    CHECK(silence->is_over());
    CHECK_FALSE(hasty);
    CHECK(report.notice.find("tower_1 (cpu) failed and is dropped, and the others repeat the step: cpu: no "
                             "answer for 60") != std::string::npos);
    silence->end();
    CHECK(trainer.step().notice.empty());
}

TEST_CASE("if the last tower fails, or with --on-device-loss stop, the run ends with the device's message") {
    const Dataset data = test::noise(50);
    for (const bool outlive : {false, true}) {
        TrainerOptions options = test::options_for({"cpu", "cpu"}, 12);
        options.outlive_devices = outlive;
        test::Failure failure;
        options.open_device = [&](std::string_view id, const OpenOptions& open) -> std::unique_ptr<Device> {
            return std::make_unique<test::ScriptedDevice>(test::reuse_device(id, open),
                                                          test::failing(failure));
        };
        Trainer trainer(test::small_recipe(), options, data);
        trainer.step();
        const TrainingState before = trainer.save();
        failure.lost = true; // of both
        CHECK_THROWS_WITH_AS(trainer.step(), doctest::Contains("refused"), DeviceError);
        CHECK(trainer.save().state == before.state);
    }
}

} // namespace towers
