// Convolution: kernel, stride and dilation in each direction, any padding, groups up to depthwise, with or
// without bias. Weights [kernel height, kernel width, input channels / groups, filters].
#include "engine/layers/layer.h"
#include "engine/layers/weighted.h"
#include "engine/layers/window.h"

#include <fmt/format.h>

namespace towers {
namespace {

class Conv2d final : public Layer {
public:
    explicit Conv2d(Attributes& attributes)
        : window_(read_window(attributes, "kernel", std::array{1u, 1u}, Dilation::read)),
          weighted_(read_weighted(attributes)) {
        const Value* const groups = attributes.find("groups");
        depthwise_ = groups != nullptr && groups->as<std::string>() != nullptr;
        if (depthwise_) {
            if (*groups->as<std::string>() != "depthwise")
                attributes.fail("groups", fmt::format("is {}; give a number, or \"depthwise\" for one group "
                                                      "for each input channel",
                                                      groups->text()));
            multiplier_ = unsigned(attributes.whole("multiplier", 1, 1 << 16, 1));
        } else {
            groups_ = unsigned(attributes.whole("groups", 1, 1 << 16, 1));
            filters_ = unsigned(attributes.whole("filters", 1, 1 << 16));
        }
    }

    Shape output(std::span<const Shape> in) const override {
        if (in[0].channels % groups(in[0]) != 0 || filters(in[0]) % groups(in[0]) != 0)
            throw LayerError(
                fmt::format("has {} groups for {} input channels and {} filters; both must be whole "
                            "multiples of the groups",
                            groups(in[0]), in[0].channels, filters(in[0])));
        const auto [rows, columns] = window_.place(in[0]);
        return {rows.out, columns.out, filters(in[0])};
    }

    Computation computation(std::span<const Shape> in) const override {
        return computation::Convolution{placed_window(window_, in[0]), groups(in[0]),
                                        weighted_.bias.has_value()};
    }

    std::vector<Variable> variables(std::span<const Shape> in) const override {
        const unsigned each = in[0].channels / groups(in[0]), outputs = filters(in[0]);
        const double area = double(window_.size[0]) * window_.size[1];
        return weighted_.variables({window_.size[0], window_.size[1], each, outputs},
                                   groups(in[0]) == 1 ? "height, width, in, out"
                                                      : "height, width, in of a group, out",
                                   area * each, area * outputs / groups(in[0]));
    }

    double flop(std::span<const Shape> in) const override {
        return 2.0 * double(output(in).elements()) * window_.size[0] * window_.size[1] * in[0].channels /
               groups(in[0]);
    }

    TensorId forward(LayerPlan& plan) const override { return weighted_.forward(plan, shape(plan)); }

    std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const override {
        return weighted_.backward(plan, shape(plan), dy);
    }

private:
    unsigned groups(const Shape& in) const { return depthwise_ ? in.channels : groups_; }
    unsigned filters(const Shape& in) const {
        return depthwise_ ? checked_channels(std::uint64_t(in.channels) * multiplier_) : filters_;
    }

    ConvShape shape(const LayerPlan& plan) const {
        const auto [rows, columns] = window_.place(plan.in());
        return {.batch = plan.batch,
                .in_height = plan.in().height,
                .in_width = plan.in().width,
                .in_channels = plan.in().channels,
                .out_height = plan.out.height,
                .out_width = plan.out.width,
                .out_channels = plan.out.channels,
                .kernel_height = window_.size[0],
                .kernel_width = window_.size[1],
                .stride_y = window_.stride[0],
                .stride_x = window_.stride[1],
                .dilation_y = window_.dilation[0],
                .dilation_x = window_.dilation[1],
                .pad_top = rows.before,
                .pad_left = columns.before,
                .groups = groups(plan.in())};
    }

    bool depthwise_ = false; ///< as many groups as input channels
    unsigned groups_ = 1, filters_ = 0, multiplier_ = 1;
    Window window_;
    Weighted weighted_;
};

} // namespace

std::unique_ptr<const Layer> make_conv2d(Attributes& attributes) {
    return std::make_unique<Conv2d>(attributes);
}

} // namespace towers
