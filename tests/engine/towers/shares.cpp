// Shares that change while a training goes on: by the towers' times, as another run had them, or because a
// tower is lost.
#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/simulated_device.h"

#include "engine/error.h"
#include "engine/towers/patience.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

namespace towers {
namespace {

/// Ways to split `global` examples in groups among `towers`, some with idle towers; another one each step.
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

/// Devices `fast` and `slow` that take as long as their models say.
void simulate(TrainerOptions& options, const LoadModel& fast, const LoadModel& slow) {
    options.open_device = [fast, slow](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
        return std::make_unique<test::SimulatedDevice>(
            std::string(id),
            [model = id == "fast" ? fast : slow](unsigned examples) { return model.seconds(examples); });
    };
}

/// Answers so many seconds later while told so.
class SlowingDevice final : public WrappedDevice {
public:
    SlowingDevice(std::unique_ptr<Device> device, const std::atomic<bool>& slow, double seconds)
        : WrappedDevice(std::move(device)), slow_(slow), seconds_(seconds) {}

protected:
    void do_wait(Submission submission) override {
        WrappedDevice::do_wait(submission);
        if (slow_) std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    }

private:
    const std::atomic<bool>& slow_;
    double seconds_;
};

/// Its batch norm spans the global batch, so that towers wait for each other's sums within a step.
Recipe joined_recipe() { return test::smooth_recipe("\"batch\""); }

} // namespace

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
                CHECK(report.shares == shares_at(options.shares.recorded, state.step));
                CHECK(report.loss == doctest::Approx(one.step().loss).epsilon(1e-4));
                distances.push_back(test::relative_norm(trainer.gradients(), one.gradients()));
            }
            std::ranges::sort(distances); // the median: see gradient_distance() of towers.cpp
            CHECK(distances[steps / 2] < 1e-5);
            CHECK(states_of(recipe, options, data, steps).back().state ==
                  states_of(recipe, options, data, steps).back().state);
        }
}

TEST_CASE("shares that follow the towers' times come close to the best ones") {
    const Dataset data = test::noise(200);
    // Steps of some 40 ms: a busy machine's noise is small beside them.
    const LoadModel fast{.fixed = 4e-3, .per_example = 4e-4}, slow{.fixed = 8e-3, .per_example = 16e-4};
    TrainerOptions options = test::options_for({"fast", "slow"}, 100);
    options.shares.automatic = true;
    simulate(options, fast, slow);
    Trainer trainer(test::small_recipe({4, 4, 4, 4}), options, data);
    CHECK(trainer.shares() == std::vector{50u, 50u});
    CHECK(trainer.step().notice.starts_with("a short trial of each tower gives shares of "));
    for (int i = 1; i < 28; ++i) trainer.step();
    const std::vector<unsigned> most{100, 100};
    const std::vector<LoadModel> models{fast, slow};
    const double best = slowest_seconds(models, balanced_shares(models, 100, 1, most));
    CAPTURE(to_string(trainer.shares()));
    CHECK(best > 0.85 * slowest_seconds(models, trainer.shares())); // the host's noise counted in
}

TEST_CASE("a slow tower never gets an even share, and costs the first steps little") {
    const Dataset data = test::noise(200);
    for (const double ratio : {30.0, 300.0}) {
        CAPTURE(ratio);
        TrainerOptions options = test::options_for({"fast", "slow"}, 100);
        options.shares.automatic = true;
        std::atomic<unsigned> largest = 0; // recorded on the slow one
        options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
            const bool slow = id == "slow";
            return std::make_unique<test::SimulatedDevice>(std::string(id), [&, slow](unsigned examples) {
                if (slow) largest = std::max(largest.load(), examples);
                return slow ? 1e-4 * ratio * examples : 2e-3 + 1e-4 * examples;
            });
        };
        Trainer trainer(test::small_recipe({4, 4, 4, 4}), options, data);
        for (int i = 0; i < 20; ++i) {
            const StepReport report = trainer.step();
            CHECK(std::accumulate(report.shares.begin(), report.shares.end(), 0u) == 100);
        }
        MESSAGE("20 steps at 1:", ratio, ": largest slow share ", largest.load());
        CHECK(largest < 50);
        if (ratio == 300) CHECK(largest < 20); // a step with so many takes 0.6 s
    }
}

TEST_CASE("what towers try before the first step leaves no trace in the results") {
    const Dataset data = test::noise(50);
    for (const Recipe& recipe : {test::small_recipe(), joined_recipe(), test::smooth_recipe("4")})
        for (const std::string& id : test::device_ids()) {
            CAPTURE(recipe.name);
            CAPTURE(id);
            TrainerOptions options = test::options_for({"cpu", id}, 40);
            options.shares.automatic = true;
            Trainer automatic(recipe, options, data);
            const TrainingState before = automatic.save();
            automatic.probe();
            CHECK(automatic.save().state == before.state);
            CHECK(automatic.probe().empty());
            std::vector<SharesFrom> shares;
            for (std::uint64_t step = 0; step < 4; ++step) shares.push_back({step, automatic.step().shares});
            options.shares = {.automatic = false, .weights = {}, .recorded = shares};
            CHECK(states_of(recipe, options, data, 5).back().state == automatic.save().state);
            // A run that goes on with shares that it has found tries nothing.
            options.shares = {.automatic = true, .weights = {}, .recorded = {{0, {28, 12}}}};
            Trainer again(recipe, options, data);
            CHECK(again.probe().empty());
            CHECK(again.step().shares == std::vector{28u, 12u});
        }
}

TEST_CASE("a tower that slows the others down gets nothing to do, and the run says why") {
    const Dataset data = test::noise(200);
    TrainerOptions options = test::options_for({"fast", "slow"}, 100);
    options.shares.automatic = true;
    simulate(options, {1e-3, 5e-5}, {.fixed = 40e-3, .per_example = 1e-4});
    Trainer trainer(test::small_recipe({4, 4, 4, 4}), options, data);
    std::string notices;
    for (int i = 0; i < 30; ++i) {
        const StepReport report = trainer.step();
        notices += report.notice;
        REQUIRE(report.tower_losses.size() == 2);
        CHECK(std::isnan(report.tower_losses[1]) == (report.shares[1] == 0));
    }
    CHECK(trainer.shares() == std::vector{100u, 0u});
    CAPTURE(notices);
    CHECK(notices.find("tower_1 (slow) gets nothing to do") != std::string::npos);
}

TEST_CASE("a tower whose device fails is let go, and the run ends as if it had never been there") {
    using Verb = test::FailingDevice::Verb;
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
    static std::atomic<bool> silence; // towers that hang live on
    for (unsigned seed = 0; seed < 200; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        silence = true;
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
        test::FailingDevice::Failure failure{.verb = Verb(random() % 4)};
        std::uint64_t failing_step = random() % steps;
        // Where the group waits for it, and knows how long a step takes
        const bool hangs = options.shares.recorded.empty() && random() % 4 == 0;
        if (hangs) {
            failure.verb = random() % 2 == 0 ? Verb::submit : Verb::wait;
            failure.silent = &silence;
            failing_step = 2 + random() % (steps - 2);
            options.device_timeout = 0.5;
        }
        test::wrap_tower(options, victim, [&](std::unique_ptr<Device> device) {
            return std::make_unique<test::FailingDevice>(std::move(device), failure);
        });
        Trainer trainer(recipe, options, data);
        std::string notices;
        for (std::uint64_t i = 0; i < steps; ++i) {
            if (i == failing_step) failure.calls_left = random() % 4;
            const StepReport report = trainer.step();
            notices += report.notice;
            CHECK(std::accumulate(report.shares.begin(), report.shares.end(), 0u) == 12);
            if (failure.lost) CHECK(report.shares[victim] == 0);
        }
        silence = false;
        silence.notify_all();
        lost += failure.lost;
        hung += failure.lost && hangs;
        CHECK(failure.lost ==
              (notices.find(fmt::format("tower_{} (cpu) failed", victim)) != std::string::npos));
        CHECK(trainer.steps_done() == steps);
        CHECK(test::relative_norm(trainer.save().state, alone.state) < 1e-4);
    }
    CHECK(lost > 100); // some verbs are not called again
    CHECK(hung > 10);
}

TEST_CASE(
    "devices that give no answer are let go too, also when others wait for their part of a batch norm") {
    const Dataset data = test::noise(50);
    static std::atomic<bool> hang; // their towers live on
    for (const Recipe& recipe : {test::small_recipe(), joined_recipe()})
        for (const std::vector<std::size_t>& victims :
             std::vector<std::vector<std::size_t>>{{0}, {2}, {0, 1}})
            for (const bool another_fails : {false, true}) {
                CAPTURE(recipe.name);
                CAPTURE(victims);
                CAPTURE(another_fails);
                TrainerOptions options = test::options_for({"cpu", "cpu", "cpu", "cpu"}, 12);
                options.open.threads = 1; // for short steps, and so a short wait for those that hang
                options.outlive_devices = true;
                options.device_timeout = 0.7;
                test::FailingDevice::Failure failure{.verb = test::FailingDevice::Verb::wait};
                std::size_t opened = 0;
                options.open_device = [&](std::string_view id,
                                          const OpenOptions& open) -> std::unique_ptr<Device> {
                    const std::size_t i = opened++;
                    auto device = open_device(id, open);
                    if (std::ranges::find(victims, i) != victims.end())
                        return std::make_unique<test::HangingDevice>(std::move(device), hang);
                    if (i == 3) return std::make_unique<test::FailingDevice>(std::move(device), failure);
                    return device;
                };
                Trainer trainer(recipe, options, data);
                for (int i = 0; i < 3; ++i) CHECK(trainer.step().notice.empty());
                hang = true;
                if (another_fails) failure.calls_left = 0;
                const StepReport report = trainer.step();
                CAPTURE(report.notice);
                std::vector<bool> gone(4);
                for (const std::size_t victim : victims) gone[victim] = true;
                if (another_fails) gone[3] = true;
                for (std::size_t i = 0; i < 4; ++i) {
                    CHECK((report.shares[i] == 0) == gone[i]);
                    CHECK((report.notice.find(fmt::format("tower_{} (cpu) failed", i)) !=
                           std::string::npos) == gone[i]);
                }
                CHECK(report.notice.find("s more than a step should take") != std::string::npos);
                hang = false; // their threads go on, and must not disturb
                hang.notify_all();
                for (int i = 0; i < 3; ++i) CHECK(trainer.step().notice.empty());
                CHECK(trainer.steps_done() == 7);
            }
}

TEST_CASE("a device that gives no answer in the first step is let go too") {
    static std::atomic<bool> hang; // its tower lives on
    hang = false;
    TrainerOptions options = test::options_for({"cpu", "cpu"}, 12);
    options.outlive_devices = true;
    options.device_timeout = 0.05;
    test::wrap_tower(options, 1, [&](std::unique_ptr<Device> device) {
        return std::make_unique<test::HangingDevice>(std::move(device), hang);
    });
    Trainer trainer(test::small_recipe(), options, test::noise(50));
    hang = true;
    const StepReport report = trainer.step();
    CHECK(report.shares == std::vector{12u, 0u});
    CHECK(report.notice.find("tower_1 (cpu) failed and is let go, and the others repeat the step: cpu: no "
                             "answer for 0.5") != std::string::npos);
    hang = false;
    hang.notify_all();
    CHECK(trainer.step().notice.empty());
}

TEST_CASE("when the only device gives no answer, the trainer says so from another thread") {
    enum class Time { first_step, later_step, save };
    for (const Time time : {Time::first_step, Time::later_step, Time::save}) {
        CAPTURE(int(time));
        std::atomic<bool> hang = false;
        std::string words;
        TrainerOptions options = test::options_for({"gpu"}, 12);
        options.device_timeout = time == Time::save ? 0.2 : 0.1;
        options.give_up = [&](const DeviceError& error) {
            words = error.what();
            hang = false; // else the test would hang too
            hang.notify_all();
        };
        options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
            return std::make_unique<test::HangingDevice>(
                std::make_unique<test::SimulatedDevice>(std::string(id), [](unsigned) { return 0.15; }),
                hang);
        };
        Trainer trainer(test::small_recipe(), options, test::noise(50));
        // The limits of load() and of the steps before are a second and more, also on a busy machine.
        const int before = time == Time::first_step ? 0 : time == Time::later_step ? 3 : 1;
        for (int i = 0; i < before; ++i) trainer.step();
        CHECK(words.empty());
        hang = true;
        const Clock::time_point begin = Clock::now();
        if (time == Time::save)
            trainer.save();
        else
            trainer.step();
        CHECK(seconds_since(begin) > 0.95);
        CAPTURE(words);
        CHECK(words.starts_with(time == Time::save ? "gpu: no answer for 2 s" : "gpu: no answer for 1"));
        CHECK(words.ends_with(" s more than a step should take") == (time == Time::later_step));
        CHECK_FALSE(hang);
    }
}

TEST_CASE("a device that only gets slower, as beside another program, is waited for") {
    std::string words;
    TrainerOptions options = test::options_for({"gpu"}, 12);
    options.device_timeout = 0.1;
    options.give_up = [&](const DeviceError& error) { words = error.what(); };
    std::atomic<bool> slow = false;
    options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
        return std::make_unique<SlowingDevice>(
            std::make_unique<test::SimulatedDevice>(std::string(id), [](unsigned) { return 0.1; }), slow,
            0.5);
    };
    Trainer trainer(test::small_recipe(), options, test::noise(50));
    for (int i = 0; i < 3; ++i) trainer.step();
    slow = true;
    trainer.step();
    CHECK(words.empty());
}

TEST_CASE("what is said of a device that gives no answer has the seconds that it was given") {
    const DeviceInfo gpu{.id = "gpu"};
    CHECK(no_answer(gpu, {.expected = 0.5, .more = 60, .known = true}) ==
          "gpu: no answer for 60 s more than a step should take");
    CHECK(no_answer(gpu, {.expected = 20.0 / 3, .more = 60.0 + 1e-3, .known = true}) ==
          "gpu: no answer for 60 s more than a step should take");
    CHECK(no_answer(gpu, {.expected = 0.5, .more = 600}) == "gpu: no answer for 600 s");
    CHECK(no_answer(gpu, {.expected = 0, .more = 1200}) == "gpu: no answer for 1200 s");
}

TEST_CASE("when the last tower fails, or when asked to, the run ends with its device's words") {
    const Dataset data = test::noise(50);
    for (const bool outlive : {false, true}) {
        TrainerOptions options = test::options_for({"cpu", "cpu"}, 12);
        options.outlive_devices = outlive;
        test::FailingDevice::Failure failure;
        options.open_device = [&](std::string_view id, const OpenOptions& open) -> std::unique_ptr<Device> {
            return std::make_unique<test::FailingDevice>(open_device(id, open), failure);
        };
        Trainer trainer(test::small_recipe(), options, data);
        trainer.step();
        const TrainingState before = trainer.save();
        failure.lost = true; // of both
        CHECK_THROWS_WITH_AS(trainer.step(), doctest::Contains("refused"), DeviceError);
        CHECK(trainer.save().state == before.state);
    }
}

TEST_CASE("recorded shares of other towers or another batch are refused") {
    const auto check = [](const std::vector<unsigned>& shares, unsigned towers, unsigned global,
                          unsigned group) {
        return first_shares({.automatic = false, .weights = {}, .recorded = {{3, shares}}}, global, towers,
                            group);
    };
    CHECK(check({8, 0}, 2, 8, 4) == std::vector{8u, 0u});
    CHECK_THROWS_WITH_AS(
        check({8, 0}, 3, 8, 4),
        "--shares: from step 3 on they were 8:0, of 2 towers, and this run has 3; give as many "
        "as the run that recorded them",
        UsageError);
    CHECK_THROWS_WITH_AS(check({8, 0}, 2, 16, 4),
                         "--shares: from step 3 on they were 8:0, which are 8 examples a step, and this run "
                         "takes 16; give --global-batch 8",
                         UsageError);
    CHECK_THROWS_WITH_AS(
        check({6, 2}, 2, 8, 4),
        "--shares: from step 3 on they were 6:2, which are no whole groups of 4 examples, as "
        "the recipe's batch norm takes; give the recipe of the run that recorded them",
        UsageError);
}

} // namespace towers
