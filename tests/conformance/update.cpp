#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

#include <array>
#include <limits>

namespace towers {
namespace {

using namespace test;
using reference::Values;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float learning_rate = 0.1f, average_decay = 0.9f;

const std::uint32_t lengths[] = {1, 13, 127, 1031};

struct Updated {
    std::vector<float> parameters, averages;
};

/// One update of `start` by `gradients`, after a step that left `results`.
Updated sgd(Device& device, const Updated& start, const std::vector<float>& gradients,
            const std::array<float, RESULT_FLOATS>& results, bool average_first = false) {
    std::array<float, STEP_FLOATS> step{};
    step[STEP_LEARNING_RATE] = learning_rate;
    step[STEP_AVERAGE_DECAY] = average_decay;
    Trial trial(device);
    const Tensor in_gradients = trial.input(gradients), parameters = trial.in_out(start.parameters),
                 averages = trial.in_out(start.averages), in_step = trial.input(step),
                 in_results = trial.input(results);
    const auto quads = std::uint32_t(gradients.size() / 4);
    trial.run(launch(kernels::sgd,
                     {in_gradients, parameters, averages, in_step, in_results, quads, average_first}, quads));
    return {trial.floats(parameters), trial.floats(averages)};
}

Updated random_start(std::size_t count) { return {random_floats(count, 1), random_floats(count, 2)}; }

} // namespace

KERNEL_TEST(sgd, "parameters follow the gradient, and their averages follow them") {
    for (const std::uint32_t quads : lengths) {
        INFO(quads, " vec4s");
        const Updated start = random_start(quads * 4);
        const std::vector<float> gradients = random_floats(quads * 4, 3);
        for (const bool average_first : {false, true}) {
            INFO("average first: ", average_first);
            Values parameters = widen(start.parameters), averages = widen(start.averages);
            for (std::size_t i = 0; i < parameters.size(); ++i) {
                const double before = parameters[i];
                parameters[i] -= double(learning_rate) * gradients[i];
                averages[i] +=
                    (1 - double(average_decay)) * ((average_first ? before : parameters[i]) - averages[i]);
            }
            on_every_device([&](Device& device) {
                const Updated updated = sgd(device, start, gradients, {2.5f, 2.0f, 0.0f}, average_first);
                check_near("parameters", updated.parameters, parameters);
                check_near("averages", updated.averages, averages);
            });
        }
    }
}

TEST_CASE("a step that diverged leaves the last good parameters and averages") {
    const Updated start = random_start(127 * 4);
    std::vector<float> gradients = random_floats(127 * 4, 3);
    gradients[5] = nan;
    on_every_device([&](Device& device) {
        std::array<std::array<float, RESULT_FLOATS>, 4> diverged{};
        diverged[0][RESULT_NONFINITE] = 1;
        diverged[1][RESULT_TOTAL_LOSS] = nan;
        diverged[2][RESULT_TOTAL_LOSS] = infinity;
        diverged[3][RESULT_TOTAL_LOSS] = -infinity;
        for (const auto& results : diverged) {
            const Updated updated = sgd(device, start, gradients, results);
            const bool parameters_kept = updated.parameters == start.parameters;
            const bool averages_kept = updated.averages == start.averages;
            CHECK(parameters_kept);
            CHECK(averages_kept);
        }
    });
}

KERNEL_TEST(average_gradients, "towers count by their share of the batch, one tower or eight") {
    for (const std::uint32_t quads : lengths)
        for (const std::uint32_t towers : {1u, 2u, 3u, 8u}) {
            INFO(quads, " vec4s, ", towers, " towers");
            Values expected(quads * 4);
            std::vector<std::vector<float>> gradients;
            AverageGradientsParams p{};
            for (std::uint32_t tower = 0; tower < towers; ++tower) {
                gradients.push_back(random_floats(quads * 4, tower));
                p.weight[tower] = float(tower + 1) / float(towers);
                for (std::size_t i = 0; i < expected.size(); ++i)
                    expected[i] += double(p.weight[tower]) * gradients[tower][i];
            }
            on_every_device([&](Device& device) {
                Trial trial(device);
                // Unused pointers stay null: the kernel must not read towers that do not exist.
                for (std::uint32_t tower = 0; tower < towers; ++tower)
                    p.gradients[tower] = trial.input(gradients[tower]);
                const Tensor mean = trial.output(quads * 4);
                p.mean = mean;
                p.towers = towers;
                p.quads = quads;
                trial.run(launch(kernels::average_gradients, p, quads));
                check_near("mean", trial.floats(mean), expected);
            });
        }
}

KERNEL_TEST(sum_partials, "no part of a split gradient is lost") {
    for (const std::uint32_t count : {1u, 13u, 127u, 4099u})
        for (const std::uint32_t parts : {1u, 2u, 3u, 13u}) {
            INFO(count, " elements, ", parts, " parts");
            const std::vector<float> values = random_floats(std::size_t(parts) * count, 1);
            Values expected(count);
            for (std::size_t i = 0; i < values.size(); ++i) expected[i % count] += values[i];
            on_every_device([&](Device& device) {
                Trial trial(device);
                const Tensor partials = trial.input(values), sum = trial.output(count);
                trial.run(launch(kernels::sum_partials, {partials, sum, parts, count}, count));
                check_near("sum", trial.floats(sum), expected);
            });
        }
}

} // namespace towers
