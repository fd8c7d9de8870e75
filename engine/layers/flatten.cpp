// Turns an example into one row of channels, in NHWC order, without moving data.
#include "engine/layers/layer.h"

namespace towers {
namespace {

class Flatten final : public Layer {
public:
    Shape output(std::span<const Shape> in) const override { return {1, 1, unsigned(in[0].elements())}; }
    Computation computation(std::span<const Shape>) const override { return computation::Flatten(); }
    TensorId forward(LayerPlan& plan) const override { return plan.input(); }
    std::vector<TensorId> backward(LayerPlan&, TensorId dy) const override { return {dy}; }
};

} // namespace

std::unique_ptr<const Layer> make_flatten(Attributes&) { return std::make_unique<Flatten>(); }

} // namespace towers
