// Steps in which one of several towers has all examples.
#include "backends/error.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/trace/trace.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"
#include "tests/support/simulated_device.h"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace towers {
namespace {

constexpr unsigned global = 12;
constexpr std::uint64_t steps = 9; // across the end of an epoch of 50
constexpr std::uint64_t few = 6;   // likewise, where shares do not change

/// What a training leaves.
struct Left {
    std::vector<float> losses, state, gradients;
    bool operator==(const Left&) const = default;
};

/// `ahead`: whether each step but the last is told that another one follows.
Left train(const Recipe& recipe, const TrainerOptions& options, const Dataset& data, bool ahead,
           const Dataset* tests = nullptr, std::uint64_t count = steps) {
    Trainer trainer(recipe, options, data, tests == nullptr ? nullptr : std::make_shared<Dataset>(*tests));
    Left left;
    for (std::uint64_t i = 1; i <= count; ++i) {
        const bool tested = tests != nullptr && i % 3 == 0;
        left.losses.push_back(trainer.step(ahead && i < count && !tested).loss);
        if (i == count) left.gradients = trainer.gradients();
        if (tested) left.losses.push_back(float(trainer.test(false)->evaluation.loss_sum));
    }
    CHECK_FALSE(trainer.is_ahead());
    left.state = trainer.save().state;
    return left;
}

TrainerOptions options_with(const std::vector<std::string>& towers, const std::vector<SharesFrom>& shares) {
    TrainerOptions options = test::options_for(towers, global);
    options.shares.recorded = shares;
    return options;
}

Recipe recipe_with_dropout() { return test::smooth_recipe("4", R"({ kind = "dropout", keep = 0.5 },)"); }

} // namespace

TEST_CASE("a tower that has all examples works as a lone one, bit by bit") {
    const Dataset data = test::noise(50), tests = test::noise(7);
    for (const Recipe& recipe :
         {recipe_with_dropout(), test::small_recipe(), test::smooth_recipe("\"batch\"")})
        for (const std::string& id : test::device_ids())
            for (const bool ahead : {false, true}) {
                CAPTURE(recipe.name);
                CAPTURE(id);
                CAPTURE(ahead);
                TrainerOptions lone = test::options_for({id}, global);
                TrainerOptions group = options_with({"cpu", id, "cpu"}, {{0, {0, global, 0}}});
                for (TrainerOptions* options : {&lone, &group})
                    options->feed = {ahead ? Feeding::streamed : Feeding::resident, 2};
                CHECK(train(recipe, group, data, ahead, &tests, few) ==
                      train(recipe, lone, data, ahead, &tests, few));
            }
}

TEST_CASE("a tower that has all examples computes them in micro-batches as a lone one") {
    const Dataset data = test::noise(50);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        TrainerOptions lone = test::options_for({id}, global);
        TrainerOptions group = options_with({id, "cpu"}, {{0, {global, 0}}});
        for (TrainerOptions* options : {&lone, &group}) options->micro_batch = 4;
        CHECK(train(recipe_with_dropout(), group, data, true, nullptr, few) ==
              train(recipe_with_dropout(), lone, data, true, nullptr, few));
    }
}

TEST_CASE(
    "shares that become all examples and less again give the same bits in flight and from a checkpoint") {
    const Dataset data = test::noise(50);
    const std::vector<SharesFrom> shares{{0, {12, 0}}, {2, {4, 8}}, {3, {0, 12}}, {5, {12, 0}}, {7, {4, 8}}};
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        for (const Feeding feeding : {Feeding::resident, Feeding::streamed}) {
            TrainerOptions options = options_with({id, "cpu"}, shares);
            options.feed = {feeding, 2};
            const Left expected = train(recipe_with_dropout(), options, data, false);
            CHECK(train(recipe_with_dropout(), options, data, true) == expected);
            for (const std::uint64_t kept : {1, 4, 6}) {
                CAPTURE(kept);
                TrainingState state;
                {
                    Trainer trainer(recipe_with_dropout(), options, data);
                    for (std::uint64_t i = 1; i <= kept; ++i) trainer.step(i < kept);
                    state = trainer.save();
                }
                Trainer trainer(recipe_with_dropout(), options, data);
                trainer.load(state);
                for (std::uint64_t i = kept + 1; i <= steps; ++i) trainer.step(i < steps);
                CHECK(trainer.save().state == expected.state);
            }
        }
    }
}

TEST_CASE("the group has a step in flight while a tower has all examples, except in a trace") {
    for (const std::string& id : test::device_ids()) {
        if (id == "cpu") continue;
        CAPTURE(id);
        TrainerOptions options = options_with({"cpu", id}, {{0, {0, global}}, {3, {6, 6}}});
        {
            Trainer trainer(test::small_recipe(), options, test::noise(50));
            for (const bool ahead : {true, true, false, false}) {
                trainer.step(true); // the third must not begin the fourth, which is shared
                CHECK(trainer.is_ahead() == ahead);
            }
        }
        options.trace = std::make_shared<Trace>(3);
        Trainer traced(test::small_recipe(), options, test::noise(50));
        traced.step(true);
        CHECK_FALSE(traced.is_ahead());
    }
}

TEST_CASE("the host's copy of the state is made while the tower with all examples computes the next step") {
    const test::VirtualClock clock;
    const Recipe recipe = test::small_recipe();
    const double copy = 0.25 / double(layout_of(recipe).bytes); // of the state, in seconds
    TrainerOptions options = options_with({"cpu", "gpu"}, {{0, {0, global}}});
    options.open_device = [&](std::string_view id, const OpenOptions& open) -> std::unique_ptr<Device> {
        if (id == "cpu") return test::reuse_device(id, open);
        return std::make_unique<test::SimulatedDevice>(
            "gpu", [](const Launch& launch) { return launch.kernel == Kernel::distort_images ? 1.0 : 0.0; },
            test::Link{copy});
    };
    for (const bool ahead : {true, false}) {
        Trainer trainer(recipe, options, test::noise(50));
        trainer.step(ahead);
        for (int i = 0; i < 4; ++i) {
            const double before = trainer.use()[1].times.work;
            trainer.step(ahead && i < 3);
            CHECK(trainer.use()[1].times.work - before == doctest::Approx(ahead ? 1.0 : 1.25).epsilon(1e-3));
        }
    }
}

TEST_CASE("a step that diverges on the tower with all examples leaves the state from before it") {
    for (const std::string& id : test::device_ids())
        for (const bool ahead : {false, true}) {
            CAPTURE(id);
            CAPTURE(ahead);
            Trainer trainer(test::small_recipe(), options_with({"cpu", id}, {{0, {0, global}}}),
                            test::noise(50));
            TrainingState state = trainer.save();
            part(std::span(state.state), trainer.layout().variables.front().range)[0] =
                std::numeric_limits<float>::infinity();
            trainer.step(ahead);
            if (trainer.is_ahead()) trainer.step();
            trainer.load(state);
            for (int again = 0; again < 2; ++again) {
                CHECK_THROWS_AS(trainer.step(ahead), Diverged);
                CHECK_FALSE(trainer.is_ahead());
                CHECK(trainer.save().step == state.step);
                const std::vector<float> after = trainer.save().state;
                CHECK(std::memcmp(after.data(), state.state.data(), after.size() * sizeof(float)) == 0);
            }
        }
}

TEST_CASE("a tower fails while its device goes on with the next step: the state from before is still there") {
    const Dataset data = test::noise(50);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        TrainerOptions options = options_with({"cpu", id}, {{0, {0, global}}});
        options.outlive_devices = true;
        bool fails = false;
        test::wrap_tower(options, 1, [&](std::unique_ptr<Device> device) {
            const auto wait = [&] {
                if (!fails) return;
                std::this_thread::sleep_for(std::chrono::milliseconds(50)); // it does all that it has got
                throw DeviceLost("gone");
            };
            return std::make_unique<test::ScriptedDevice>(std::move(device), test::Script{.wait = wait});
        });
        std::vector<float> state;
        {
            Trainer trainer(test::small_recipe(), options, data);
            for (std::uint64_t i = 0; i < steps; ++i) {
                fails = i >= 3;
                CHECK(trainer.step(i + 1 < steps).shares ==
                      (fails ? std::vector{global, 0u} : std::vector{0u, global}));
            }
            state = trainer.save().state;
        }
        TrainerOptions again = options_with({"cpu", id}, {{0, {0, global}}, {3, {global, 0}}});
        CHECK(train(test::small_recipe(), again, data, false).state == state);
    }
}

/// Loss and hanging cost a repetition of the step: the run has the bits of one whose recorded shares change
/// there.
TEST_CASE("a tower that fails or hangs while it has all examples is dropped, and only its step is repeated") {
    using Verb = test::Failure::Verb;
    const Dataset data = test::noise(50);
    const Recipe recipe = recipe_with_dropout();
    const std::vector<std::string> ids = test::device_ids();
    unsigned lost = 0, hung = 0, in_flight = 0;
    for (unsigned seed = 0; seed < 200; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const std::string id = seed % 4 == 0 ? ids[random() % ids.size()] : "cpu"; // which is fast
        CAPTURE(id);
        const std::size_t towers = 2 + random() % 2, victim = random() % towers;
        std::vector<std::string> names(towers, "cpu");
        names[victim] = id;
        std::vector<unsigned> all(towers);
        all[victim] = global;
        TrainerOptions options = options_with(names, {{0, all}});
        options.open.threads = 1;
        options.outlive_devices = true;
        const bool ahead = random() % 4 > 0, hangs = random() % 3 == 0;
        const std::uint64_t failing_step = random() % (steps - 1);
        test::Failure failure{.verb = random() % 2 == 0 ? Verb::submit : Verb::wait};
        const auto silence = std::make_shared<test::Silence>();
        if (hangs) {
            failure.silence = silence;
            options.patience = Patience(1e6, test::time_of(silence));
        }
        test::wrap_tower(options, victim, [&](std::unique_ptr<Device> device) {
            return std::make_unique<test::ScriptedDevice>(std::move(device), test::failing(failure));
        });
        std::vector<float> state;
        std::vector<SharesFrom> recorded{{0, all}};
        {
            Trainer trainer(recipe, options, data);
            for (std::uint64_t i = 0; i < steps; ++i) {
                if (i == failing_step) {
                    silence->begin({1e8});
                    in_flight += trainer.is_ahead();
                    failure.calls_left = random() % 4;
                }
                const StepReport report = trainer.step(ahead && i + 1 < steps);
                CHECK(report.shares[victim] == (failure.lost ? 0 : global));
                CHECK(report.notice.empty() == (report.shares == recorded.back().shares));
                if (report.shares != recorded.back().shares) recorded.push_back({i, report.shares});
            }
            silence->end();
            CHECK(trainer.steps_done() == steps);
            state = trainer.save().state;
        }
        lost += failure.lost;
        hung += failure.lost && hangs;
        if (recorded.size() > 1 && recorded[1].step == 0) recorded.erase(recorded.begin());
        TrainerOptions again = options_with(names, recorded);
        again.open.threads = 1;
        CHECK(train(recipe, again, data, false).state == state);
    }
    CHECK(lost > 120); // in the last steps there may be too few calls left
    CHECK(hung > 30);
    CHECK(in_flight > 10); // a cpu never has one
}

} // namespace towers
