// A fully connected layer. It takes its input flattened in NHWC order. Weights [in, units].
#include "engine/layers/layer.h"
#include "engine/layers/weighted.h"

namespace towers {
namespace {

class Dense final : public Layer {
public:
    explicit Dense(Attributes& attributes)
        : units_(unsigned(attributes.whole("units", 1, 1 << 20))), weighted_(read_weighted(attributes)) {}

    Shape output(std::span<const Shape>) const override { return {1, 1, units_}; }
    Computation computation(std::span<const Shape>) const override {
        return computation::Dense{weighted_.bias.has_value()};
    }

    std::vector<Variable> variables(std::span<const Shape> in) const override {
        return weighted_.variables({in[0].elements(), units_}, "in, out", double(in[0].elements()), units_);
    }

    double flop(std::span<const Shape> in) const override { return 2.0 * double(in[0].elements()) * units_; }

    TensorId forward(LayerPlan& plan) const override { return weighted_.forward(plan, shape(plan)); }

    std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const override {
        return weighted_.backward(plan, shape(plan), dy);
    }

private:
    /// As a 1x1 convolution of 1x1 images.
    ConvShape shape(const LayerPlan& plan) const {
        return {.batch = plan.batch,
                .in_height = 1,
                .in_width = 1,
                .in_channels = unsigned(plan.in().elements()),
                .out_height = 1,
                .out_width = 1,
                .out_channels = units_,
                .kernel_height = 1,
                .kernel_width = 1,
                .stride_y = 1,
                .stride_x = 1,
                .dilation_y = 1,
                .dilation_x = 1,
                .pad_top = 0,
                .pad_left = 0,
                .groups = 1};
    }

    unsigned units_;
    Weighted weighted_;
};

} // namespace

std::unique_ptr<const Layer> make_dense(Attributes& attributes) {
    return std::make_unique<Dense>(attributes);
}

} // namespace towers
