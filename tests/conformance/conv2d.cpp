#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace towers {
namespace {

using namespace test;
using reference::same_conv;
using reference::valid_conv;
using reference::Values;

const std::vector<ConvShape>& shapes() {
    static const std::vector<ConvShape> all{
        same_conv(1, 1, 1, 1, 1, 1, 1, 1),
        same_conv(3, 1, 1, 13, 1, 1, 1, 127), // dense layers
        same_conv(1, 1, 1, 127, 1, 1, 1, 13),
        same_conv(67, 1, 1, 64, 1, 1, 1, 3), //
        same_conv(3, 5, 7, 3, 3, 3, 1, 13),
        same_conv(1, 5, 7, 13, 5, 5, 2, 3),
        same_conv(3, 12, 12, 3, 5, 5, 1, 64),
        same_conv(1, 12, 12, 64, 5, 5, 1, 64), // as in the tutorial
        same_conv(1, 5, 7, 127, 1, 1, 2, 1),
        same_conv(3, 1, 1, 3, 5, 5, 1, 13), // kernel larger than the image
        same_conv(3, 12, 12, 1, 3, 3, 2, 13),
        same_conv(1, 7, 5, 13, 3, 3, 2, 127),
        same_conv(1, 5, 7, 3, 1, 5, 1, 13),
        same_conv(3, 5, 7, 4, 3, 1, 2, 8),
        valid_conv(3, 12, 12, 3, 5, 5, 1, 13),
        valid_conv(1, 12, 12, 3, 5, 5, 2, 13), // the last row is never read
    };
    return all;
}

std::string text(const ConvShape& s) {
    return fmt::format("batch {}, {}x{}x{} -> {}x{}x{}, kernel {}x{}, stride {}, padding {} and {}", s.batch,
                       s.in_height, s.in_width, s.in_channels, s.out_height, s.out_width, s.out_channels,
                       s.kernel_height, s.kernel_width, s.stride, s.pad_top, s.pad_left);
}

/// Random tensors of a shape. `x` looks like the output of a ReLU: about half of it is zero.
struct Tensors {
    std::vector<float> x, w, b, dy;
    explicit Tensors(const ConvShape& s)
        : x(random_floats(std::size_t(s.batch) * s.in_height * s.in_width * s.in_channels, 1)),
          w(random_floats(std::size_t(s.kernel_height) * s.kernel_width * s.in_channels * s.out_channels, 2)),
          b(random_floats(s.out_channels, 3)),
          dy(random_floats(std::size_t(s.batch) * s.out_height * s.out_width * s.out_channels, 4)) {
        for (float& value : x) value = std::max(value, 0.0f);
    }
};

/// Enough invocations to give every output tile a workgroup.
std::uint64_t tiled(std::uint64_t rows, std::uint64_t columns) {
    return (rows + 63) / 64 * ((columns + 63) / 64) * 256;
}

std::vector<float> forward(Device& device, const ConvShape& s, const Tensors& t, bool relu) {
    Trial trial(device);
    const Tensor x = trial.input(t.x), w = trial.input(t.w), b = trial.input(t.b);
    const Tensor y = trial.output(t.dy.size());
    trial.run(launch(kernels::conv2d_forward, {x, w, b, y, s, relu}, tiled(t.dy.size(), s.out_channels)));
    return trial.floats(y);
}

std::vector<float> data_gradient(Device& device, const ConvShape& s, const Tensors& t, bool relu) {
    Trial trial(device);
    const Tensor dy = trial.input(t.dy), w = trial.input(t.w), x = trial.input(t.x);
    const Tensor dx = trial.output(t.x.size());
    trial.run(
        launch(kernels::conv2d_backward_data, {dy, w, x, dx, s, relu}, tiled(t.x.size(), s.in_channels)));
    return trial.floats(dx);
}

/// The sum over the parts, in double precision.
Values total(const std::vector<float>& parts, std::size_t count) {
    Values sum(count);
    for (std::size_t i = 0; i < parts.size(); ++i) sum[i % count] += parts[i];
    return sum;
}

struct WeightGradients {
    std::vector<float> dw, db;
};
WeightGradients weight_gradients(Device& device, const ConvShape& s, const Tensors& t, unsigned splits) {
    Trial trial(device);
    const Tensor x = trial.input(t.x), dy = trial.input(t.dy);
    const Tensor dw = trial.output(splits * t.w.size()), db = trial.output(splits * t.b.size());
    trial.run(launch(kernels::conv2d_backward_weights, {x, dy, dw, db, s, splits},
                     splits * tiled(t.w.size() / s.out_channels + 1, s.out_channels)));
    return {narrow(total(trial.floats(dw), t.w.size())), narrow(total(trial.floats(db), t.b.size()))};
}

} // namespace

KERNEL_TEST(conv2d_forward, "the network sees its images through the right filters") {
    EveryText texts;
    for (const ConvShape& s : shapes()) {
        INFO(text(s));
        const Tensors t(s);
        const Values sums = reference::conv2d(s, widen(t.x), widen(t.w), widen(t.b));
        texts.run([&](Device& device) {
            check_near("y", forward(device, s, t, false), sums);
            check_near("y after ReLU", forward(device, s, t, true), reference::relu(sums));
        });
    }
}

KERNEL_TEST(conv2d_backward_data, "lower layers learn from the right gradient") {
    EveryText texts;
    for (const ConvShape& s : shapes()) {
        INFO(text(s));
        const Tensors t(s);
        const Values dx = reference::conv2d_data_gradient(s, widen(t.w), widen(t.dy));
        texts.run([&](Device& device) {
            check_near("dx", data_gradient(device, s, t, false), dx);
            check_near("dx through ReLU", data_gradient(device, s, t, true),
                       reference::relu_gradient(widen(t.x), dx));
        });
    }
}

KERNEL_TEST(conv2d_backward_weights,
            "filters and biases learn from the right gradient, however it is split") {
    EveryText texts;
    for (const ConvShape& s : shapes()) {
        INFO(text(s));
        const Tensors t(s);
        const Values dw = reference::conv2d_weights_gradient(s, widen(t.x), widen(t.dy));
        const Values db = reference::conv2d_bias_gradient(s, widen(t.dy));
        texts.run([&](Device& device) {
            for (const unsigned splits : {1u, 3u}) {
                INFO(splits, " splits");
                const WeightGradients measured = weight_gradients(device, s, t, splits);
                check_near("dw", measured.dw, dw);
                check_near("db", measured.db, db);
            }
        });
    }
}

TEST_CASE("a NaN or an infinity passes through a convolution and its ReLU, so that divergence shows") {
    EveryText texts;
    for (const ConvShape& s : {same_conv(3, 5, 7, 3, 3, 3, 1, 13), same_conv(3, 1, 1, 13, 1, 1, 1, 127)}) {
        INFO(text(s));
        for (const float bad :
             {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            INFO("with ", bad);
            Tensors t(s);
            t.x[t.x.size() / 2] = bad;
            const Values sums = reference::conv2d(s, widen(t.x), widen(t.w), widen(t.b));
            texts.run([&](Device& device) {
                check_near("y", forward(device, s, t, false), sums);
                check_near("y after ReLU", forward(device, s, t, true), reference::relu(sums));
            });
        }
        Tensors t(s);
        t.dy[t.dy.size() / 2] = std::numeric_limits<float>::quiet_NaN();
        const Values dx = reference::conv2d_data_gradient(s, widen(t.w), widen(t.dy));
        texts.run([&](Device& device) {
            check_near("dx", data_gradient(device, s, t, false), dx);
            const WeightGradients measured = weight_gradients(device, s, t, 1);
            CHECK(std::isnan(measured.db[t.dy.size() / 2 % s.out_channels]));
        });
    }
}

TEST_CASE("the reference convolution gradients are the gradients of the convolution") {
    for (const ConvShape& s : {same_conv(2, 5, 4, 3, 3, 3, 1, 2), same_conv(2, 5, 4, 2, 5, 3, 2, 3),
                               same_conv(3, 1, 1, 5, 1, 1, 1, 4), valid_conv(1, 6, 6, 2, 3, 3, 2, 2)}) {
        INFO(text(s));
        const Tensors t(s);
        const Values x = widen(t.x), w = widen(t.w), b = widen(t.b), dy = widen(t.dy);
        using namespace reference;
        const auto by_x = [&](const Values& v) { return dot(conv2d(s, v, w, b), dy); };
        const auto by_w = [&](const Values& v) { return dot(conv2d(s, x, v, b), dy); };
        const auto by_b = [&](const Values& v) { return dot(conv2d(s, x, w, v), dy); };
        CHECK(relative_error(conv2d_data_gradient(s, w, dy), finite_differences(x, by_x)) < 1e-8);
        CHECK(relative_error(conv2d_weights_gradient(s, x, dy), finite_differences(w, by_w)) < 1e-8);
        CHECK(relative_error(conv2d_bias_gradient(s, dy), finite_differences(b, by_b)) < 1e-8);
    }
}

} // namespace towers
