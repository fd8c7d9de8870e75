#include "tests/support/devices.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <limits>

namespace towers {
namespace {

/// The state before a step, and the global batch's gradient in that step.
struct TakenStep {
    TrainingState from;
    std::vector<float> gradient;
};

std::vector<TakenStep> first_steps(const Dataset& data, unsigned global, int count) {
    Trainer trainer(test::small_recipe(), test::options_for({"cpu"}, global), data);
    std::vector<TakenStep> steps;
    for (int i = 0; i < count; ++i) {
        steps.push_back({trainer.save(), {}});
        trainer.step();
        steps.back().gradient = trainer.gradients();
    }
    return steps;
}

/// The median distance of the gradients from those of the same steps. The median, because an activation
/// within rounding of zero, or such a gap between two values of a pooling window, changes its step's gradient
/// by 1e-3 whatever the towers do, but a wrong split is wrong in every step.
double gradient_distance(const std::vector<std::string>& towers, const std::vector<double>& shares,
                         const Dataset& data, unsigned global, const std::vector<TakenStep>& steps) {
    TrainerOptions options = test::options_for(towers, global);
    options.shares.weights = shares;
    Trainer trainer(test::small_recipe(), options, data);
    std::vector<double> distances;
    for (const TakenStep& step : steps) {
        trainer.load(step.from);
        trainer.step();
        distances.push_back(test::relative_norm(trainer.gradients(), step.gradient));
    }
    std::sort(distances.begin(), distances.end());
    return distances[distances.size() / 2];
}

} // namespace

TEST_CASE("any number of towers and any split gives the single tower's gradient") {
    const Dataset data = test::noise(50);
    const std::vector<TakenStep> steps = first_steps(data, 12, 5);
    const auto distance = [&](const std::vector<std::string>& towers, const std::vector<double>& shares) {
        return gradient_distance(towers, shares, data, 12, steps);
    };
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        CHECK(distance({id}, {}) < 1e-5);
        CHECK(distance({"cpu", id}, {}) < 1e-5);
        CHECK(distance({id, id, "cpu"}, {3, 2, 1}) < 1e-5);
    }
    // More towers than one launch of the averaging kernel takes; most have one example each
    CHECK(distance(std::vector<std::string>(11, "cpu"), {}) < 1e-5);
}

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
        TrainingState state = trainer.initial_state();
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
        TrainingState state = trainer.initial_state();
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
            test::FailingDevice::Failure failure;
            TrainerOptions options = test::options_for({"cpu", id}, 4);
            test::wrap_tower(options, 1, [&](std::unique_ptr<Device> device) {
                return std::make_unique<test::FailingDevice>(std::move(device), failure);
            });
            Trainer trainer(recipe, options, data);
            REQUIRE(trainer.tower(1).parts().size() > 1);
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

} // namespace towers
