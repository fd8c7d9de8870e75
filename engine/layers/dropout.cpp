// In training, keeps each value with probability `keep` and divides it by `keep`; sets the others to zero
// (Srivastava et al. 2014). The choice depends on seed, epoch, record and layer alone, so it does not depend
// on the tower.
#include "engine/layers/layer.h"

namespace towers {
namespace {

class Dropout final : public Layer {
public:
    explicit Dropout(Attributes& attributes) : keep_(float(attributes.number("keep", 1e-6, 1))) {}

    Shape output(std::span<const Shape> in) const override { return in[0]; }
    Computation computation(std::span<const Shape>) const override { return computation::Dropout{keep_}; }

    TensorId forward(LayerPlan& plan) const override {
        if (!plan.training) return plan.input();
        const TensorId y = plan.make_output();
        drop(plan, "forward", plan.input(), y);
        return y;
    }

    std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const override {
        if (!plan.wants()) return {TensorId()};
        const TensorId dx = plan.make_gradient();
        drop(plan, "backward", dy, dx);
        return {dx};
    }

private:
    void drop(LayerPlan& plan, const char* role, TensorId from, TensorId to) const {
        plan.add(role, kernels::dropout,
                 {.x = from,
                  .examples = plan.examples,
                  .y = to,
                  .seed_low = uint(plan.seed),
                  .seed_high = uint(plan.seed >> 32),
                  .layer = plan.node,
                  .elements = unsigned(plan.out.elements()),
                  .count = unsigned(plan.out_elements()),
                  .keep = keep_});
    }

    float keep_;
};

} // namespace

std::unique_ptr<const Layer> make_dropout(Attributes& attributes) {
    return std::make_unique<Dropout>(attributes);
}

} // namespace towers
