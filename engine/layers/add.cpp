// The sum of tensors of equal shape.
#include "engine/layers/layer.h"

#include <fmt/format.h>

namespace towers {
namespace {

class Add final : public Layer {
public:
    Arity arity() const override { return {2, ADD_TENSORS}; }

    Shape output(std::span<const Shape> in) const override {
        for (const Shape& each : in)
            if (each != in[0])
                throw LayerError(fmt::format("adds {} and {}; its inputs must have one shape",
                                             to_string(in[0]), to_string(each)));
        return in[0];
    }
    Computation computation(std::span<const Shape>) const override { return computation::Add(); }

    TensorId forward(LayerPlan& plan) const override {
        AddTensorsParams p{};
        for (std::size_t i = 0; i < plan.inputs(); ++i) p.x[i] = plan.input(i);
        const TensorId y = plan.make_output();
        p.y = y;
        p.tensors = unsigned(plan.inputs());
        p.count = unsigned(plan.out_elements());
        plan.add("forward", kernels::add_tensors, p);
        return y;
    }

    std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const override {
        return std::vector<TensorId>(plan.inputs(), dy);
    }
};

} // namespace

std::unique_ptr<const Layer> make_add(Attributes&) { return std::make_unique<Add>(); }

} // namespace towers
