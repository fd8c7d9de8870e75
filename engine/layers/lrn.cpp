// Local response normalization across channels (Krizhevsky et al. 2012, with the *sum* of TensorFlow):
// y = x / (bias + alpha * sum of x^2 over 2 radius + 1 channels)^beta
#include "engine/layers/layer.h"

namespace towers {
namespace {

class Lrn final : public Layer {
public:
    explicit Lrn(Attributes& attributes)
        : radius_(unsigned(attributes.whole("radius", 0, 1 << 16, 5))),
          bias_(float(attributes.number("bias", 1e-6, 1e6, 1))),
          alpha_(float(attributes.number("alpha", 0, 1e6, 1))),
          beta_(float(attributes.number("beta", 0, 6, 0.5))) {} // so that the least bias^-beta is finite

    Shape output(std::span<const Shape> in) const override { return in[0]; }
    Computation computation(std::span<const Shape>) const override {
        return computation::LocalResponseNorm{radius_, bias_, alpha_, beta_};
    }

    TensorId forward(LayerPlan& plan) const override {
        const TensorId y = plan.make_output();
        const TensorId scale = plan.make("scale", plan.shape_of(plan.out));
        plan.keep("output", y);
        plan.keep("scale", scale);
        plan.add("forward", kernels::lrn_forward,
                 {.x = plan.input(),
                  .y = y,
                  .scale = scale,
                  .pixels = plan.out_pixels(),
                  .channels = plan.in().channels,
                  .radius = radius_,
                  .bias = bias_,
                  .alpha = alpha_,
                  .beta = beta_});
        return y;
    }

    std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const override {
        if (!plan.wants()) return {TensorId()};
        const TensorId dx = plan.make_gradient();
        plan.add("backward", kernels::lrn_backward,
                 {.x = plan.input(),
                  .y = plan.kept("output"),
                  .scale = plan.kept("scale"),
                  .dy = dy,
                  .dx = dx,
                  .pixels = plan.out_pixels(),
                  .channels = plan.in().channels,
                  .radius = radius_,
                  .alpha = alpha_,
                  .beta = beta_,
                  .relu = 0});
        return {dx};
    }

private:
    unsigned radius_;
    float bias_, alpha_, beta_;
};

} // namespace

std::unique_ptr<const Layer> make_lrn(Attributes& attributes) { return std::make_unique<Lrn>(attributes); }

} // namespace towers
