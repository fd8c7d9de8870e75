#include "tests/conformance/harness.h"
#include "tests/conformance/reference_optimizers.h"

#include <array>
#include <cmath>
#include <functional>
#include <limits>

namespace towers {
namespace {

using namespace test;
using reference::OptimizerState;
using reference::Values;
using Results = std::array<float, RESULT_FLOATS>;
using Step = std::array<float, STEP_FLOATS>;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float average_decay = 0.9f;
constexpr Results sound{0.0f, 2.5f, 2.0f};

const std::uint32_t lengths[] = {1, 127, 1031};
constexpr std::size_t capacity = std::size_t(256) << 10; // of a trial; many steps make many

/// The numbers that the host writes before step `number`, counted from 1; every step has another learning
/// rate.
Step step_block(unsigned number, double beta1 = 0, double beta2 = 0) {
    Step step{};
    step[STEP_LEARNING_RATE] = 0.01f / float(number);
    step[STEP_AVERAGE_DECAY] = average_decay;
    step[STEP_CORRECTION_1] = float(1 - std::pow(beta1, number));
    step[STEP_CORRECTION_2] = float(1 - std::pow(beta2, number));
    return step;
}

struct State {
    std::vector<float> parameters, first, second;

    bool operator==(const State&) const = default;
};

State random_start(std::size_t count, float second = 0) {
    return {random_floats(count, 1), std::vector<float>(count), std::vector<float>(count, second)};
}

/// The state's tensors in one trial, and the other inputs of a step.
struct Placed {
    Tensor parameters, first, second, gradients, step, results;
    std::uint32_t quads;
};

/// Runs one launch of `make(placed)` on `state`.
State run_step(Device& device, const State& state, const std::vector<float>& gradients, const Step& step,
               const Results& results, const std::function<Launch(const Placed&)>& make) {
    Trial trial(device, capacity);
    const Placed placed{trial.in_out(state.parameters),
                        trial.in_out(state.first),
                        trial.in_out(state.second),
                        trial.input(gradients),
                        trial.input(step),
                        trial.input(results),
                        std::uint32_t(gradients.size() / 4)};
    trial.run(make(placed));
    return {trial.floats(placed.parameters), trial.floats(placed.first), trial.floats(placed.second)};
}

using Maker = std::function<Launch(const Placed&)>;
using Reference = std::function<void(OptimizerState&, const Values& gradients, double rate, unsigned step)>;

/// Runs 20 steps of the launches in turn, as training does, and compares them with the reference.
void check_steps(const std::vector<Maker>& makers, const Reference& reference, const State& start,
                 double beta1 = 0, double beta2 = 0) {
    const std::size_t count = start.parameters.size();
    OptimizerState expected{widen(start.parameters), widen(start.first), widen(start.second)};
    for (unsigned step = 1; step <= 20; ++step)
        reference(expected, widen(random_floats(count, 10 + step)),
                  double(step_block(step)[STEP_LEARNING_RATE]), step);
    on_every_device([&](Device& device) {
        State state = start;
        for (unsigned step = 1; step <= 20; ++step)
            for (const Maker& maker : makers)
                state = run_step(device, state, random_floats(count, 10 + step),
                                 step_block(step, beta1, beta2), sound, maker);
        check_near("parameters", state.parameters, expected.parameters);
        check_near("velocity or first moment", state.first, expected.first);
        check_near("mean square or second moment", state.second, expected.second);
        double moved = 0;
        for (std::size_t i = 0; i < count; ++i)
            moved = std::max(moved, std::abs(double(state.parameters[i]) - double(start.parameters[i])));
        CHECK(moved > 1e-3);
    });
}

const Maker make_sgd = [](const Placed& p) {
    return launch(kernels::sgd, {p.gradients, p.parameters, p.step, p.results, p.quads});
};

/// The average is `first`, the values are `second`.
Maker make_average(float blend) {
    return [=](const Placed& p) {
        return launch(kernels::moving_average, {p.second, p.first, p.step, p.results, p.quads, blend});
    };
}

Maker make_momentum(float momentum, bool nesterov) {
    return [=](const Placed& p) {
        return launch(kernels::momentum,
                      {p.gradients, p.parameters, p.first, p.step, p.results, p.quads, momentum, nesterov});
    };
}

Maker make_rmsprop(const reference::Rmsprop& o, bool epsilon_inside) {
    return [=](const Placed& p) {
        return launch(kernels::rmsprop,
                      {p.gradients, p.parameters, p.second, p.first, p.step, p.results, p.quads,
                       float(1 - o.decay), float(o.momentum), float(o.epsilon), epsilon_inside});
    };
}

Maker make_adam(const reference::Adam& o) {
    return [=](const Placed& p) {
        return launch(kernels::adam, {p.gradients, p.parameters, p.first, p.second, p.step, p.results,
                                      p.quads, float(1 - o.beta1), float(1 - o.beta2), float(o.epsilon)});
    };
}

Maker make_decay(float decay) {
    return [=](const Placed& p) {
        return launch(kernels::decoupled_decay, {p.parameters, p.step, p.results, decay, p.quads});
    };
}

} // namespace

KERNEL_TEST(sgd, "parameters follow the gradient") {
    for (const std::uint32_t quads : lengths) {
        INFO(quads, " vec4s");
        check_steps(
            {make_sgd}, [](OptimizerState& s, const Values& g, double rate, unsigned) { sgd(s, g, rate); },
            random_start(quads * 4));
    }
}

KERNEL_TEST(moving_average, "averages follow the parameters and batch norm's statistics, each by its decay") {
    for (const std::uint32_t quads : lengths)
        for (const float blend : {-1.0f, 0.0f, 0.25f, 1.0f}) {
            INFO(quads, " vec4s, blend ", blend);
            const State start{{0, 0, 0, 0}, random_floats(quads * 4, 1), random_floats(quads * 4, 2)};
            const double part = blend < 0 ? 1 - double(average_decay) : double(blend);
            Values expected = widen(start.first);
            for (std::size_t i = 0; i < expected.size(); ++i)
                expected[i] += part * (double(start.second[i]) - expected[i]);
            on_every_device([&](Device& device) {
                const State after = run_step(device, start, std::vector<float>(quads * 4), step_block(1),
                                             sound, make_average(blend));
                check_near("averages", after.first, expected);
                const bool values_kept = after.second == start.second;
                CHECK(values_kept);
            });
        }
}

KERNEL_TEST(momentum, "a run with momentum or Nesterov's moves as PyTorch's would") {
    for (const std::uint32_t quads : lengths)
        for (const bool nesterov : {false, true}) {
            INFO(quads, " vec4s, Nesterov: ", nesterov);
            const float decay = 0.9f;
            check_steps(
                {make_momentum(decay, nesterov)},
                [&](OptimizerState& s, const Values& g, double rate, unsigned) {
                    momentum(s, g, rate, double(decay), nesterov);
                },
                random_start(quads * 4));
        }
}

KERNEL_TEST(rmsprop, "a run with RMSProp moves as PyTorch's or TensorFlow's would") {
    const reference::Rmsprop options[] = {{0.9, 0.9, 1e-3}, {0.99, 0, 1e-8}, {0.9, 0.9, 1.0}};
    for (const std::uint32_t quads : lengths)
        for (const reference::Rmsprop& o : options) {
            INFO(quads, " vec4s, decay ", o.decay, ", momentum ", o.momentum, ", epsilon ", o.epsilon);
            check_steps(
                {make_rmsprop(o, false)},
                [&](OptimizerState& s, const Values& g, double rate, unsigned) {
                    rmsprop_pytorch(s, g, rate, o);
                },
                random_start(quads * 4));
            check_steps(
                {make_rmsprop(o, true)},
                [&](OptimizerState& s, const Values& g, double rate, unsigned) {
                    rmsprop_tensorflow(s, g, rate, o);
                },
                random_start(quads * 4, 1));
        }
}

KERNEL_TEST(adam, "a run with Adam moves as PyTorch's would, from the first step on") {
    const reference::Adam options[] = {{0.9, 0.999, 1e-8, 0}, {0.5, 0.9, 1e-3, 0}, {0, 0.99, 0.1, 0}};
    for (const std::uint32_t quads : lengths)
        for (const reference::Adam& o : options) {
            INFO(quads, " vec4s, betas ", o.beta1, ", ", o.beta2, ", epsilon ", o.epsilon);
            check_steps(
                {make_adam(o)},
                [&](OptimizerState& s, const Values& g, double rate, unsigned step) {
                    adam(s, g, rate, o, step);
                },
                random_start(quads * 4), o.beta1, o.beta2);
        }
}

KERNEL_TEST(decoupled_decay, "weights decay by AdamW's rule, beside Adam's moments") {
    const reference::Adam o{0.9, 0.999, 1e-8, 0.5};
    for (const std::uint32_t quads : lengths) {
        INFO(quads, " vec4s");
        check_steps(
            {make_decay(float(o.decay)), make_adam(o)},
            [&](OptimizerState& s, const Values& g, double rate, unsigned step) {
                adam(s, g, rate, o, step);
            },
            random_start(quads * 4), o.beta1, o.beta2);
    }
}

TEST_CASE("a step that diverged leaves the last good parameters, averages and moments") {
    State start{random_floats(127 * 4, 1), random_floats(127 * 4, 2), random_floats(127 * 4, 3, 0, 1)};
    std::vector<float> gradients = random_floats(127 * 4, 4);
    gradients[5] = nan;
    std::array<Results, 4> diverged{};
    diverged[0][RESULT_NONFINITE] = 1;
    diverged[1][RESULT_TOTAL_LOSS] = nan;
    diverged[2][RESULT_TOTAL_LOSS] = infinity;
    diverged[3][RESULT_TOTAL_LOSS] = -infinity;
    const reference::Rmsprop rmsprop{0.9, 0.9, 1e-3};
    on_every_device([&](Device& device) {
        for (const Maker& maker : {make_sgd, make_average(-1), make_average(0.5f), make_momentum(0.9f, true),
                                   make_rmsprop(rmsprop, false), make_rmsprop(rmsprop, true),
                                   make_adam({0.9, 0.999, 1e-8, 0}), make_decay(0.1f)})
            for (const Results& results : diverged) {
                const bool kept =
                    run_step(device, start, gradients, step_block(1, 0.9, 0.999), results, maker) == start;
                CHECK(kept);
            }
    });
}

namespace {

float gradient_norm(Device& device, const std::vector<float>& squares) {
    Trial trial(device, capacity);
    const Tensor in = trial.input(squares), norm = trial.output(1);
    trial.run(launch(kernels::gradient_norm, {in, norm, unsigned(squares.size())}));
    return trial.floats(norm)[0];
}

std::vector<float> clipped(Device& device, const std::vector<float>& values, float norm, float most) {
    Trial trial(device, capacity);
    const Tensor gradients = trial.in_out(values), in_norm = trial.input(std::vector{norm});
    const auto quads = unsigned(values.size() / 4);
    trial.run(launch(kernels::clip_gradients, {gradients, in_norm, most, quads}));
    return trial.floats(gradients);
}

} // namespace

KERNEL_TEST(gradient_norm, "the norm of the gradient counts every part") {
    on_every_device([&](Device& device) {
        for (const unsigned count : {1u, 13u, 1031u, 16384u}) {
            const std::vector<float> squares = random_floats(count, count, 0, 1);
            double sum = 0;
            for (const float square : squares) sum += double(square);
            check_near("norm", std::vector{gradient_norm(device, squares)}, Values{std::sqrt(sum)});
        }
        CHECK(std::isnan(gradient_norm(device, {1, nan, 1})));
        CHECK(gradient_norm(device, {1, infinity, 1}) == infinity);
    });
}

KERNEL_TEST(clip_gradients, "a gradient with too large a norm is scaled down as in PyTorch, and no other") {
    for (const std::uint32_t quads : lengths) {
        INFO(quads, " vec4s");
        const std::vector<float> values = random_floats(quads * 4, 1);
        const auto norm = float(std::sqrt(reference::dot(widen(values), widen(values))));
        on_every_device([&](Device& device) {
            for (const float most : {0.1f, 0.99f * norm, norm, 2 * norm}) {
                Values expected = widen(values);
                for (double& value : expected) value *= std::min(1.0, double(most) / (double(norm) + 1e-6));
                const std::vector<float> after = clipped(device, values, norm, most);
                check_near("gradients", after, expected);
                const bool kept = after == values;
                if (most > norm) CHECK(kept);
            }
            CHECK(clipped(device, {0, 0, 0, 0}, 0, 1) == std::vector<float>(4));
        });
    }
}

KERNEL_TEST(unscale_gradients, "a loss scale leaves every digit of the gradients and hides no overflow") {
    const auto unscaled = [](Device& device, const std::vector<float>& values, float scale) {
        Trial trial(device, capacity);
        Step step{};
        step[STEP_GRADIENT_SCALE] = scale;
        const Tensor gradients = trial.in_out(values), in_step = trial.input(step);
        trial.run(launch(kernels::unscale_gradients, {gradients, in_step, std::uint32_t(values.size() / 4)}));
        return trial.floats(gradients);
    };
    for (const std::uint32_t quads : lengths) {
        INFO(quads, " vec4s");
        const std::vector<float> values = random_floats(quads * 4, 1);
        on_every_device([&](Device& device) {
            for (const float scale : {0x1p-24f, 0x1p-10f, 1.0f}) {
                std::vector<float> expected = values;
                for (float& value : expected) value *= scale;
                CHECK(unscaled(device, values, scale) == expected);
            }
            const std::vector<float> odd = unscaled(device, {infinity, -infinity, nan, 1}, 0x1p-24f);
            CHECK(odd[0] == infinity);
            CHECK(odd[1] == -infinity);
            CHECK(std::isnan(odd[2]));
            CHECK(odd[3] == 0x1p-24f);
        });
    }
}

TEST_CASE("a gradient that is not finite, or whose norm overflows, is not clipped to a finite one") {
    on_every_device([&](Device& device) {
        for (const float norm : {nan, infinity})
            for (const float value : clipped(device, {0, 1, -1e30f, 1e-30f}, norm, 1))
                CHECK_FALSE(std::isfinite(value));
    });
}

} // namespace towers
