// A trainer's test passes.
#include "backends/error.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"

#include <atomic>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace towers {
namespace {

constexpr int steps = 2;

/// A run's bits.
struct Bits {
    std::vector<float> state, losses;
    bool operator==(const Bits&) const = default;
};

/// Evaluates a trainer's parameters on a device of its own.
Evaluation evaluate_alone(Trainer& trainer, const Dataset& tests, bool raw) {
    std::vector<Evaluator> evaluators;
    evaluators.emplace_back(test::device("cpu"), trainer.recipe(), tests, 8);
    const std::vector<float> state = trainer.save().state;
    const StateSection* const averages = raw ? nullptr : trainer.layout().averages();
    return sum_up(
        evaluate(evaluators, part(std::span(state),
                                  averages != nullptr ? averages->range : trainer.layout().all_variables()))
            .each);
}

void check_same(const Evaluation& found, const Evaluation& expected) {
    CHECK(found.examples == expected.examples);
    CHECK(found.correct == expected.correct);
    CHECK(found.correct_in_few == expected.correct_in_few);
    CHECK(found.loss_sum == doctest::Approx(expected.loss_sum).epsilon(1e-4));
}

TrainerOptions uneven(std::vector<std::string> towers, const std::vector<double>& weights) {
    TrainerOptions options = test::options_for(std::move(towers), 12);
    options.shares.weights = weights;
    return options;
}

/// Trains; with `tests` makes a test pass after each step, alternately of averages and variables.
Bits train(Trainer& trainer, const Dataset* tests) {
    Bits bits;
    for (int i = 0; i < steps; ++i) {
        bits.losses.push_back(trainer.step().loss);
        if (tests == nullptr) continue;
        const bool raw = i % 2 == 1;
        check_same(trainer.test(raw)->evaluation, evaluate_alone(trainer, *tests, raw));
    }
    bits.state = trainer.save().state;
    return bits;
}

} // namespace

TEST_CASE("a test pass changes no bit of the training, and gives an evaluation's figures") {
    const Dataset data = test::noise(50), tests = test::noise(7);
    const auto check = [&](const Recipe& recipe, const TrainerOptions& options) {
        CAPTURE(recipe.name);
        CAPTURE(options.towers.size());
        Trainer trainer(recipe, options, data,
                        test::borrowed(tests)); // of one trainer: some drivers take long to open
        const TrainingState before = trainer.save();
        const Bits undisturbed = train(trainer, nullptr);
        trainer.load(before);
        CHECK(train(trainer, &tests) == undisturbed);
    };
    const Recipe with_averages = test::small_recipe(), with_batch_norm = test::smooth_recipe("4");
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        check(with_averages, uneven({"cpu", id}, {2, 1}));
        check(with_batch_norm, test::options_for({id}, 4));
    }
    check(with_averages, test::options_for({"cpu"}, 12));
    check(with_batch_norm, uneven({"cpu", "cpu"}, {2, 1}));
    check(test::smooth_recipe("\"batch\""), uneven({"cpu", "cpu", "cpu"}, {1, 0, 2}));
    TrainerOptions in_micro_batches = test::options_for({"cpu"}, 12);
    in_micro_batches.micro_batch = 4;
    check(with_batch_norm, in_micro_batches);
}

TEST_CASE("the same shares give the same bits of a test pass") {
    const Dataset data = test::noise(50), tests = test::noise(30);
    const auto loss = [&] {
        Trainer trainer(test::small_recipe(), uneven({"cpu", "cpu", "cpu"}, {3, 2, 1}), data,
                        test::borrowed(tests));
        trainer.step();
        return trainer.test(true)->evaluation.loss_sum;
    };
    CHECK(loss() == loss());
}

TEST_CASE("test passes need no memory of a device but their images, and a little while they last") {
    const Dataset data = test::noise(50), tests = test::noise(1000); // 3 MB
    for (const unsigned before : {1u, 2u}) {                         // towers
        CAPTURE(before);
        std::uint64_t allocated = 0, most = 0;
        const auto train_on = [&](const Dataset* tested, const std::function<void(Trainer&)>& then) {
            TrainerOptions options = test::options_for(std::vector<std::string>(before, "cpu"), 48);
            const test::ScriptedDevice* device = nullptr;
            test::wrap_tower(options, 0, [&](std::unique_ptr<Device> opened) {
                test::Script script{.allocate = [&](std::size_t bytes, std::uint64_t now) {
                    most = std::max<std::uint64_t>(most, now + bytes);
                }};
                auto wrapped = std::make_unique<test::ScriptedDevice>(std::move(opened), std::move(script));
                device = wrapped.get();
                return wrapped;
            });
            Trainer trainer(test::small_recipe(), options, data,
                            tested != nullptr ? test::borrowed(*tested) : nullptr);
            trainer.step();
            allocated = device->allocated();
            if (then) then(trainer);
            CHECK(device->allocated() == allocated);
        };
        train_on(nullptr, {});
        const std::uint64_t without = allocated;
        train_on(&tests, [&](Trainer& trainer) {
            most = 0;
            CHECK(trainer.test(false));
            // The state's way through staging memory, examples and scores: no activations, no variables
            CHECK(most < allocated + trainer.layout().bytes + 40000);
            CHECK(trainer.own_tower(0)->session().bytes()[std::size_t(Arena::activations)] > 1000000);
            CHECK(trainer.test(true));
        });
        CHECK(allocated - without == 1000 * 3072);
    }
}

TEST_CASE("a tower that fails in a test pass is dropped, and the others repeat it") {
    using Verb = test::Failure::Verb;
    const Dataset data = test::noise(50), tests = test::noise(40);
    for (const Verb verb : {Verb::allocate, Verb::record, Verb::submit, Verb::wait})
        for (const bool hangs : {false, true}) {
            if (hangs && verb != Verb::submit && verb != Verb::wait) continue;
            CAPTURE(int(verb));
            CAPTURE(hangs);
            TrainerOptions options = uneven({"cpu", "cpu", "cpu"}, {1, 1, 1});
            options.outlive_devices = true;
            test::Failure failure{.verb = verb};
            const auto silence = std::make_shared<test::Silence>();
            if (hangs) {
                failure.silence = silence;
                options.patience = Patience(1e6, test::time_of(silence));
            }
            test::wrap_tower(options, 1, [&](std::unique_ptr<Device> device) {
                return std::make_unique<test::ScriptedDevice>(std::move(device), test::failing(failure));
            });
            Trainer trainer(test::small_recipe(), options, data, test::borrowed(tests));
            for (int i = 0; i < 3; ++i) trainer.step();
            silence->begin({1e8});
            failure.calls_left = 1;
            const std::optional<TestReport> report = trainer.test(false);
            silence->end();
            REQUIRE(report);
            CAPTURE(report->notice);
            CHECK(report->notice.find(
                      "tower_1 (cpu) failed and is dropped, and the others repeat the test pass: ") == 0);
            check_same(report->evaluation, evaluate_alone(trainer, tests, false));
            const StepReport next = trainer.step();
            CHECK(next.shares == std::vector{6u, 0u, 6u});
            CHECK(trainer.steps_done() == 4);
        }
}

TEST_CASE("with --on-device-loss stop, a failure in a test pass leaves the parameters for a last save") {
    const Dataset data = test::noise(50), tests = test::noise(40);
    TrainerOptions options = uneven({"cpu", "cpu"}, {1, 1});
    test::Failure failure;
    test::wrap_tower(options, 1, [&](std::unique_ptr<Device> device) {
        return std::make_unique<test::ScriptedDevice>(std::move(device), test::failing(failure));
    });
    Trainer trainer(test::small_recipe(), options, data, test::borrowed(tests));
    trainer.step();
    const std::vector<float> before = trainer.save().state;
    failure.calls_left = 1;
    CHECK_THROWS_WITH_AS(trainer.test(false), "refused", DeviceError);
    CHECK(trainer.save().state == before);
}

TEST_CASE("a test pass that is stopped after a tower has failed tells of it") {
    const Dataset data = test::noise(50), tests = test::noise(40);
    TrainerOptions options = uneven({"cpu", "cpu", "cpu"}, {1, 1, 1});
    options.outlive_devices = true;
    test::Failure failure;
    std::atomic<bool> stop = false;
    test::wrap_tower(options, 1, [&](std::unique_ptr<Device> device) {
        test::Script script = test::failing(failure);
        script.submit = [&, submit = script.submit] {
            if (failure.calls_left == 0) stop = true;
            submit();
        };
        return std::make_unique<test::ScriptedDevice>(std::move(device), std::move(script));
    });
    Trainer trainer(test::small_recipe(), options, data, test::borrowed(tests));
    trainer.step();
    CHECK(trainer.take_notice().empty());
    failure.calls_left = 0;
    CHECK_FALSE(trainer.test(false, &stop));
    CHECK(trainer.take_notice().find(
              "tower_1 (cpu) failed and is dropped, and the others repeat the test pass: ") == 0);
    CHECK(trainer.take_notice().empty());
}

TEST_CASE("a test pass ends early when it is told to") {
    const Dataset data = test::noise(50), tests = test::noise(1000);
    for (const std::size_t towers : {1u, 2u}) {
        std::atomic<bool> stop = false;
        TrainerOptions options = test::options_for(std::vector<std::string>(towers, "cpu"), 12);
        std::atomic<unsigned> waits = 0;
        test::wrap_tower(options, 0, [&](std::unique_ptr<Device> device) {
            return std::make_unique<test::ScriptedDevice>(std::move(device), test::Script{.wait = [&] {
                                                              if (stop) ++waits;
                                                          }});
        });
        Trainer trainer(test::small_recipe(), options, data, test::borrowed(tests));
        trainer.step();
        const TrainingState before = trainer.save();
        stop = true;
        waits = 0;
        CHECK_FALSE(trainer.test(false, &stop));
        CHECK(waits < 5);
        CHECK(trainer.save().state == before.state);
        stop = false;
        CHECK(trainer.test(false, &stop)->evaluation.examples == 1000);
    }
}

} // namespace towers
