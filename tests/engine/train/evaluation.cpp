#include "engine/train/evaluation.h"

#include "backends/wrapped_device.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"

#include <doctest/doctest.h>
#include <memory>
#include <vector>

namespace towers {
TEST_CASE("an evaluation borrows a tower's device and data between steps, and changes nothing there") {
    const Recipe recipe = test::small_recipe();
    const Dataset data = test::noise(50);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        Trainer trainer(recipe, test::options_for({id}, 10), data);
        const TrainingState before = trainer.save();
        trainer.step();
        const TrainingState undisturbed = trainer.save();
        trainer.load(before);
        const auto run = [&](auto& on) {
            return Evaluator(on, recipe, data, 16).run(before.state, false, 0, 1);
        };
        const Evaluation found = run(trainer.tower(0).session()), alone = run(test::device(id));
        CHECK(found.examples == 50);
        CHECK(found.correct == alone.correct);
        CHECK(found.loss_sum == alone.loss_sum);
        trainer.step();
        CHECK(trainer.save().state == undisturbed.state);
    }
}

TEST_CASE("an evaluation on a tower has no second copy of the data set") {
    const Recipe recipe = test::small_recipe();
    const Dataset data = test::noise(1000); // 3 MB
    TrainerOptions options = test::options_for({"cpu"}, 10);
    const test::ScriptedDevice* device = nullptr;
    test::wrap_tower(options, 0, [&](std::unique_ptr<Device> opened) {
        auto wrapped = std::make_unique<test::ScriptedDevice>(std::move(opened), test::Script{});
        device = wrapped.get();
        return wrapped;
    });
    const Trainer trainer(recipe, options, data);
    const auto taken_by = [&](auto& on) {
        const std::size_t before = device->allocated();
        const Evaluator evaluator(on, recipe, data, 1);
        return device->allocated() - before;
    };
    const Session& of_tower = trainer.tower(0).session();
    const std::size_t borrowing = taken_by(of_tower), own = taken_by(of_tower.device());
    CHECK(own - borrowing == of_tower.bytes()[std::size_t(Arena::records)]);
}

TEST_CASE("evaluators share the batches, and only padding counts an example twice") {
    const Recipe recipe = test::small_recipe();
    const Dataset data = test::noise(25);
    const std::vector<float> state = initial_state(layout_of(recipe), 5);
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<Evaluator> evaluators;
    for (int i = 0; i < 3; ++i) {
        devices.push_back(open_device("cpu", test::open_options()));
        evaluators.emplace_back(*devices.back(), recipe, data, 4);
    }
    const Evaluation whole = Evaluator(*devices[0], recipe, data, 25).run(state, false, 0, 1);
    const Evaluation shared = evaluate(evaluators, state, false), padded = evaluate(evaluators, state, true);
    CHECK(shared.examples == 25);
    CHECK(shared.correct == whole.correct);
    CHECK(shared.loss_sum == doctest::Approx(whole.loss_sum));
    CHECK(padded.examples == 28);
    CHECK(padded.loss_sum > shared.loss_sum);
}

} // namespace towers
