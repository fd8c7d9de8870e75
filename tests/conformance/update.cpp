#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

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
                trial.run(launch(kernels::sum_partials, {partials, sum, parts, count}));
                check_near("sum", trial.floats(sum), expected);
            });
        }
}

} // namespace towers
