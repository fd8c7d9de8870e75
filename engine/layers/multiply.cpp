// The product of two tensors of equal shape, or of a tensor and one value per channel.
#include "engine/layers/layer.h"

#include <fmt/format.h>

namespace towers {
namespace {

class Multiply final : public Layer {
public:
    Arity arity() const override { return {2, 2}; }

    Shape output(std::span<const Shape> in) const override {
        if (in[1] != in[0] && in[1] != Shape{1, 1, in[0].channels})
            throw LayerError(fmt::format("multiplies {} by {}; the second must have the first's shape, or be "
                                         "[1, 1, {}]",
                                         to_string(in[0]), to_string(in[1]), in[0].channels));
        return in[0];
    }
    Computation computation(std::span<const Shape>) const override { return computation::Multiply(); }

    TensorId forward(LayerPlan& plan) const override {
        const TensorId y = plan.make_output();
        plan.add("forward", kernels::multiply,
                 product(plan, plan.input(0), plan.input(1), y, broadcasts(plan)));
        return y;
    }

    std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const override {
        TensorId da, db;
        if (plan.wants(0)) {
            da = plan.make_gradient(0);
            plan.add("backward", kernels::multiply, product(plan, dy, plan.input(1), da, broadcasts(plan)));
        }
        if (plan.wants(1)) {
            db = plan.make_gradient(1);
            if (broadcasts(plan)) {
                const Shape& out = plan.out;
                plan.add("scale backward", kernels::multiply_backward_scale,
                         {.a = plan.input(0),
                          .dy = dy,
                          .db = db,
                          .batch = plan.batch,
                          .pixels = out.height * out.width,
                          .channels = out.channels});
            } else {
                plan.add("second backward", kernels::multiply, product(plan, dy, plan.input(0), db, false));
            }
        }
        return {da, db};
    }

private:
    static bool broadcasts(const LayerPlan& plan) { return plan.in(1) != plan.in(0); }

    static MultiplyParams product(const LayerPlan& plan, TensorId a, TensorId b, TensorId y, bool broadcast) {
        return {.a = a,
                .b = b,
                .y = y,
                .batch = plan.batch,
                .pixels = plan.out.height * plan.out.width,
                .channels = plan.out.channels,
                .broadcast = broadcast ? 1u : 0u};
    }
};

} // namespace

std::unique_ptr<const Layer> make_multiply(Attributes&) { return std::make_unique<Multiply>(); }

} // namespace towers
