// The maximum of each window; padding is never the maximum.
#include "engine/layers/layer.h"
#include "engine/layers/window.h"

namespace towers {
namespace {

class MaxPool final : public Layer {
public:
    explicit MaxPool(Attributes& attributes) : window_(read_window(attributes, "window", {})) {
        constexpr unsigned places = 256; // in a window, so that a byte holds the maximum's place
        if (window_.size[0] * window_.size[1] > places)
            attributes.fail("window", "has more than 256 places; use a smaller one, such as 16");
    }

    Shape output(std::span<const Shape> in) const override {
        const auto [rows, columns] = window_.place(in[0]);
        return {rows.out, columns.out, in[0].channels};
    }

    Computation computation(std::span<const Shape> in) const override {
        return computation::MaxPool{placed_window(window_, in[0])};
    }

    TensorId forward(LayerPlan& plan) const override {
        const TensorId y = plan.make_output();
        // Four channels share a word.
        const Shape words{plan.out.height, plan.out.width, (plan.out.channels + 3) / 4};
        const TensorId argmax = plan.make("argmax", plan.shape_of(words), ElementType::uint32);
        plan.keep("argmax", argmax);
        plan.add("forward", kernels::max_pool_forward,
                 {.x = plan.input(), .y = y, .argmax = argmax, .shape = shape(plan)});
        return y;
    }

    std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const override {
        if (!plan.wants()) return {TensorId()};
        const TensorId dx = plan.make_gradient();
        plan.add("backward", kernels::max_pool_backward,
                 {.dy = dy, .argmax = plan.kept("argmax"), .dx = dx, .shape = shape(plan)});
        return {dx};
    }

private:
    PoolShape shape(const LayerPlan& plan) const {
        const auto [rows, columns] = window_.place(plan.in());
        return {.batch = plan.batch,
                .in_height = plan.in().height,
                .in_width = plan.in().width,
                .channels = plan.in().channels,
                .out_height = plan.out.height,
                .out_width = plan.out.width,
                .window_height = window_.size[0],
                .window_width = window_.size[1],
                .stride_y = window_.stride[0],
                .stride_x = window_.stride[1],
                .pad_top = rows.before,
                .pad_left = columns.before};
    }

    Window window_;
};

} // namespace

std::unique_ptr<const Layer> make_max_pool(Attributes& attributes) {
    return std::make_unique<MaxPool>(attributes);
}

} // namespace towers
