#include "tests/conformance/harness.h"
#include "tests/conformance/reference_average_pool.h"

#include <fmt/format.h>
#include <limits>

namespace towers {
namespace {

using namespace test;
using reference::Values;

const AveragePoolShape shapes[] = {
    // batch, height, width, channels, out height and width, window, strides, padding, padding counts
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0},
    {3, 5, 7, 13, 5, 7, 3, 3, 1, 1, 1, 1, 0},      // Inception's, at both divisors
    {3, 5, 7, 13, 5, 7, 3, 3, 1, 1, 1, 1, 1},      //
    {1, 12, 12, 64, 6, 6, 2, 2, 2, 2, 0, 0, 0},    // DenseNet's
    {2, 7, 7, 300, 1, 1, 7, 7, 1, 1, 0, 0, 0},     // global, small
    {3, 17, 13, 127, 1, 1, 17, 13, 1, 1, 0, 0, 0}, // global, large enough for subgroups
    {2, 9, 8, 64, 1, 1, 9, 8, 1, 1, 0, 0, 0},      //
    {1, 12, 5, 3, 3, 3, 1, 3, 5, 1, 0, 0, 0},      // rows outside all windows
    {1, 12, 5, 8, 4, 2, 5, 4, 3, 2, 1, 0, 0},      // more padding below than above
    {1, 12, 5, 8, 4, 2, 5, 4, 3, 2, 1, 0, 1},      //
    {1, 20, 19, 3, 3, 3, 11, 9, 7, 6, 3, 1, 0},    // large windows that leave the image
    {1, 20, 19, 3, 3, 3, 11, 9, 7, 6, 3, 1, 1},
};

std::string text(const AveragePoolShape& s) {
    return fmt::format("batch {}, {}x{}x{} -> {}x{}, window {}x{}, strides {} and {}, padding {} and {}{}",
                       s.batch, s.in_height, s.in_width, s.channels, s.out_height, s.out_width,
                       s.window_height, s.window_width, s.stride_y, s.stride_x, s.pad_top, s.pad_left,
                       s.padding_counts != 0 ? " counts" : "");
}

std::size_t in_size(const AveragePoolShape& s) {
    return std::size_t(s.batch) * s.in_height * s.in_width * s.channels;
}
std::size_t out_size(const AveragePoolShape& s) {
    return std::size_t(s.batch) * s.out_height * s.out_width * s.channels;
}

void check_forward(const AveragePoolShape& s, const std::vector<float>& values) {
    const Values expected = reference::average_pool(s, widen(values));
    on_every_device([&](Device& device) {
        Trial trial(device);
        const Tensor x = trial.input(values), y = trial.output(out_size(s));
        trial.run(launch(kernels::average_pool_forward, {x, y, s}));
        check_near("y", trial.floats(y), expected);
    });
}

void check_backward(const AveragePoolShape& s, const std::vector<float>& gradient) {
    const Values expected = reference::average_pool_gradient(s, widen(gradient));
    on_every_device([&](Device& device) {
        Trial trial(device);
        const Tensor dy = trial.input(gradient), dx = trial.output(in_size(s));
        trial.run(launch(kernels::average_pool_backward, {dy, dx, s}));
        check_near("dx", trial.floats(dx), expected);
    });
}

} // namespace

KERNEL_TEST(average_pool_forward,
            "a pooled response is the mean over its window, divided by the right number") {
    for (const AveragePoolShape& s : shapes) {
        INFO(text(s));
        check_forward(s, random_floats(in_size(s), 1));
    }
}

TEST_CASE("the mean of a large window keeps its digits") {
    // Where all values are equal, rounding errors have the same sign.
    check_forward({1, 224, 224, 5, 1, 1, 224, 224, 1, 1, 0, 0, 0},
                  std::vector<float>(std::size_t(224) * 224 * 5, 1.4980f));
}

KERNEL_TEST(average_pool_backward, "every pixel gets its part of the gradient of each mean") {
    for (const AveragePoolShape& s : shapes) {
        INFO(text(s));
        check_backward(s, random_floats(out_size(s), 2));
    }
}

TEST_CASE("a NaN or an infinity reaches the means and gradients of its windows, and no others") {
    for (const AveragePoolShape& s : shapes)
        for (const float bad :
             {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            INFO(text(s), ", with ", bad);
            std::vector<float> values = random_floats(in_size(s), 1),
                               gradient = random_floats(out_size(s), 2);
            values[values.size() / 2] = bad;
            gradient[gradient.size() / 2] = bad;
            check_forward(s, values);
            check_backward(s, gradient);
        }
}

TEST_CASE("the reference average pooling gradient is the gradient of average pooling") {
    for (const AveragePoolShape& s : shapes) {
        if (in_size(s) > 1000) continue;
        INFO(text(s));
        const Values x = widen(random_floats(in_size(s), 1)), dy = widen(random_floats(out_size(s), 2));
        const auto by_x = [&](const Values& v) { return reference::dot(reference::average_pool(s, v), dy); };
        CHECK(reference::relative_error(reference::average_pool_gradient(s, dy),
                                        reference::finite_differences(x, by_x)) < 1e-8);
    }
}

} // namespace towers
