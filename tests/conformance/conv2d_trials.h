// What the tests of convolutions share: random tensors of a shape, and each pass run once on a device.
#pragma once

#include "backends/precision.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

#include <algorithm>
#include <fmt/format.h>

namespace towers::test {

inline std::string text(const ConvShape& s) {
    return fmt::format("batch {}, {}x{}x{} -> {}x{}x{}, kernel {}x{}, strides {} and {}, padding {} and {}, "
                       "dilations {} and {}, {} groups",
                       s.batch, s.in_height, s.in_width, s.in_channels, s.out_height, s.out_width,
                       s.out_channels, s.kernel_height, s.kernel_width, s.stride_y, s.stride_x, s.pad_top,
                       s.pad_left, s.dilation_y, s.dilation_x, s.groups);
}

/// Random tensors for a shape. As after a ReLU, about half of `x` is zero.
struct Tensors {
    std::vector<float> x, w, b, dy; // b: may be empty
    explicit Tensors(const ConvShape& s, bool bias = true)
        : x(random_floats(std::size_t(s.batch) * s.in_height * s.in_width * s.in_channels, 1)),
          w(random_floats(std::size_t(s.kernel_height) * s.kernel_width * (s.in_channels / s.groups) *
                              s.out_channels,
                          2)),
          b(random_floats(bias ? s.out_channels : 0, 3)),
          dy(random_floats(std::size_t(s.batch) * s.out_height * s.out_width * s.out_channels, 4)) {
        for (float& value : x) value = std::max(value, 0.0f);
    }
};

/// The factors of products rounded; biases are none.
inline Tensors rounded(Tensors t, Precision operands) {
    for (std::vector<float>* const factor : {&t.x, &t.w, &t.dy}) round_all(*factor, operands, factor->data());
    return t;
}

/// Memory for a trial with these tensors, their outputs and guard words
inline std::size_t capacity(const Tensors& t) {
    const std::size_t floats = t.x.size() + t.w.size() + t.b.size() + t.dy.size();
    return std::max(std::size_t(4) << 20, 2 * floats * sizeof(float) + (std::size_t(1) << 16));
}

/// The kernels of the three passes: for all convolutions, or for depthwise ones.
struct Kernels {
    KernelHandle<Conv2dForwardParams> forward;
    KernelHandle<Conv2dBackwardDataParams> data;
    KernelHandle<Conv2dBackwardWeightsParams> weights;
};
inline constexpr Kernels general{kernels::conv2d_forward, kernels::conv2d_backward_data,
                                 kernels::conv2d_backward_weights};
inline constexpr Kernels depthwise{kernels::depthwise_conv2d_forward, kernels::depthwise_conv2d_backward_data,
                                   kernels::depthwise_conv2d_backward_weights};

/// The three passes' launches, without tensors
inline Launch forward_of(const Kernels& kernels, const ConvShape& s, bool bias) {
    return launch(kernels.forward, {.shape = s, .bias = bias, .splits = 1});
}
inline Launch data_gradient_of(const Kernels& kernels, const ConvShape& s) {
    return launch(kernels.data, {.shape = s, .splits = 1});
}
inline Launch weight_gradients_of(const Kernels& kernels, const ConvShape& s, bool bias) {
    return launch(kernels.weights, {.shape = s, .bias = bias, .splits = 1});
}

/// `splits`, here and below: parts of each sum; 0: the device's choice
inline std::vector<float> forward(Device& device, const Kernels& kernels, const ConvShape& s,
                                  const Tensors& t, bool relu, unsigned splits = 0) {
    Trial trial(device, capacity(t));
    Conv2dForwardParams p{.shape = s, .relu = relu, .bias = !t.b.empty(), .splits = 1};
    p.x = trial.input(t.x);
    p.w = trial.input(t.w);
    if (p.bias != 0) p.b = trial.input(t.b);
    const Tensor y = trial.output(t.dy.size());
    p.y = y;
    trial.run(launch(kernels.forward, p), splits);
    return trial.floats(y);
}

inline std::vector<float> data_gradient(Device& device, const Kernels& kernels, const ConvShape& s,
                                        const Tensors& t, bool relu, unsigned splits = 0) {
    Trial trial(device, capacity(t));
    const Tensor dy = trial.input(t.dy), w = trial.input(t.w), x = trial.input(t.x);
    const Tensor dx = trial.output(t.x.size());
    trial.run(launch(kernels.data, {dy, w, x, dx, s, relu, 1}), splits);
    return trial.floats(dx);
}

struct WeightGradients {
    std::vector<float> dw, db;
};
inline WeightGradients weight_gradients(Device& device, const Kernels& kernels, const ConvShape& s,
                                        const Tensors& t, unsigned splits) {
    Trial trial(device, capacity(t));
    const Tensor x = trial.input(t.x), dy = trial.input(t.dy), dw = trial.output(t.w.size());
    Conv2dBackwardWeightsParams p{x, dy, dw, {}, s, !t.b.empty(), 1};
    Tensor db;
    if (p.bias != 0) p.db = db = trial.output(t.b.size());
    trial.run(launch(kernels.weights, p), splits);
    WeightGradients gradients{trial.floats(dw), {}};
    if (p.bias != 0) gradients.db = trial.floats(db);
    return gradients;
}

} // namespace towers::test
