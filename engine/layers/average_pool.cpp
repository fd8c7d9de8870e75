// The mean of each window. `count_padding`: whether padding counts as zeros (PyTorch's default) or not at all
// (TensorFlow).
#include "engine/layers/average_pool.h"

namespace towers {

Shape AveragePool::output(std::span<const Shape> in) const {
    if (!window_) return {1, 1, in[0].channels};
    const auto [rows, columns] = window_->place(in[0]);
    return {rows.out, columns.out, in[0].channels};
}

Computation AveragePool::computation(std::span<const Shape> in) const {
    if (!window_) return computation::GlobalAveragePool();
    return computation::AveragePool{placed_window(*window_, in[0]), counts_padding_};
}

AveragePoolShape AveragePool::shape(const LayerPlan& plan) const {
    const Shape& in = plan.in();
    Window window =
        window_.value_or(Window{.size = {in.height, in.width}, .padding = Window::Padding::valid});
    const auto [rows, columns] = window.place(in);
    return {.batch = plan.batch,
            .in_height = in.height,
            .in_width = in.width,
            .channels = in.channels,
            .out_height = rows.out,
            .out_width = columns.out,
            .window_height = window.size[0],
            .window_width = window.size[1],
            .stride_y = window.stride[0],
            .stride_x = window.stride[1],
            .pad_top = rows.before,
            .pad_left = columns.before,
            .padding_counts = counts_padding_ ? 1u : 0u};
}

TensorId AveragePool::forward(LayerPlan& plan) const {
    const TensorId y = plan.make_output();
    plan.add("forward", kernels::average_pool_forward, {.x = plan.input(), .y = y, .shape = shape(plan)});
    return y;
}

std::vector<TensorId> AveragePool::backward(LayerPlan& plan, TensorId dy) const {
    if (!plan.wants()) return {TensorId()};
    const TensorId dx = plan.make_gradient();
    plan.add("backward", kernels::average_pool_backward, {.dy = dy, .dx = dx, .shape = shape(plan)});
    return {dx};
}

std::unique_ptr<const Layer> make_average_pool(Attributes& attributes) {
    const Window window = read_window(attributes, "window", {});
    return std::make_unique<AveragePool>(window, attributes.flag("count_padding", false));
}

} // namespace towers
