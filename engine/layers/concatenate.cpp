// Joins the channels of tensors of equal height and width.
#include "engine/layers/layer.h"

#include <fmt/format.h>

namespace towers {
namespace {

class Concatenate final : public Layer {
public:
    Arity arity() const override { return {1, 1000}; }

    Shape output(std::span<const Shape> in) const override {
        std::uint64_t channels = 0;
        for (const Shape& each : in) {
            if (each.height != in[0].height || each.width != in[0].width)
                throw LayerError(fmt::format("joins {} and {}; its inputs must have one height and width",
                                             to_string(in[0]), to_string(each)));
            channels += each.channels;
        }
        return {in[0].height, in[0].width, checked_channels(channels)};
    }
    Computation computation(std::span<const Shape>) const override { return computation::Concatenate(); }

    TensorId forward(LayerPlan& plan) const override {
        const TensorId y = plan.make_output();
        unsigned first = 0;
        for (std::size_t i = 0; i < plan.inputs(); ++i) {
            const unsigned channels = plan.in(i).channels;
            plan.add(fmt::format("forward {}", i + 1), kernels::copy_channels,
                     {.x = plan.input(i),
                      .y = y,
                      .pixels = plan.out_pixels(),
                      .channels = channels,
                      .source_stride = channels,
                      .source_first = 0,
                      .target_stride = plan.out.channels,
                      .target_first = first});
            first += channels;
        }
        return y;
    }

    std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const override {
        std::vector<TensorId> gradients(plan.inputs());
        unsigned first = 0;
        for (std::size_t i = 0; i < plan.inputs(); ++i) {
            const unsigned channels = plan.in(i).channels;
            if (plan.wants(i)) {
                gradients[i] = plan.make_gradient(i);
                plan.add(fmt::format("backward {}", i + 1), kernels::copy_channels,
                         {.x = dy,
                          .y = gradients[i],
                          .pixels = plan.out_pixels(),
                          .channels = channels,
                          .source_stride = plan.out.channels,
                          .source_first = first,
                          .target_stride = channels,
                          .target_first = 0});
            }
            first += channels;
        }
        return gradients;
    }
};

} // namespace

std::unique_ptr<const Layer> make_concatenate(Attributes&) { return std::make_unique<Concatenate>(); }

} // namespace towers
