#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

#include <algorithm>

namespace towers {
namespace {

using namespace test;
using reference::Values;

const std::uint32_t lengths[] = {1, 13, 127, 1031};

} // namespace

KERNEL_TEST(accumulate_gradients, "the gradients of further micro-batches are added to the first's") {
    for (const std::uint32_t quads : lengths) {
        INFO(quads, " vec4s");
        const std::vector<float> first = random_floats(quads * 4, 1), further = random_floats(quads * 4, 2);
        Values expected(quads * 4);
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = double(first[i]) + further[i];
        on_every_device([&](Device& device) {
            Trial trial(device);
            const Tensor sum = trial.in_out(first);
            trial.run(launch(kernels::accumulate_gradients, {trial.input(further), sum, quads}));
            check_near("sum", trial.floats(sum), expected);
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
                trial.run(launch(kernels::sum_partials,
                                 {.partials = partials, .sum = sum, .parts = parts, .count = count}));
                check_near("sum", trial.floats(sum), expected);
            });
        }
}

TEST_CASE("a split convolution's bias, ReLU and mask act on the sum of its parts") {
    constexpr std::uint32_t channels = 13, count = channels * 79, parts = 3;
    const std::vector<float> values = random_floats(parts * count, 1), b = random_floats(channels, 2),
                             x = random_floats(count, 3);
    Values sums(count), active(count), masked(count);
    for (std::size_t i = 0; i < values.size(); ++i) sums[i % count] += values[i];
    for (std::size_t i = 0; i < count; ++i) {
        active[i] = std::max(0.0, sums[i] + double(b[i % channels]));
        masked[i] = x[i] > 0 ? sums[i] : 0;
    }
    on_every_device([&](Device& device) {
        const auto finished = [&](SumPartialsParams p) {
            Trial trial(device);
            p.partials = trial.input(values);
            if (p.bias != 0) p.b = trial.input(b);
            if (p.masked != 0) p.x = trial.input(x);
            const Tensor sum = trial.output(count);
            p.sum = sum;
            p.parts = parts;
            p.count = count;
            trial.run(launch(kernels::sum_partials, p));
            return trial.floats(sum);
        };
        check_near("y", finished({.channels = channels, .bias = 1, .relu = 1}), active);
        check_near("dx", finished({.masked = 1}), masked);
    });
}

} // namespace towers
