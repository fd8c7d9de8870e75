// Layer normalization (Ba, Kiros and Hinton 2016): y = (x - mean) / sqrt(variance + epsilon) * gamma + beta,
// with the statistics of each pixel's channels. Examples are independent, so there are neither groups nor
// moving statistics.
#include "engine/layers/affine.h"

namespace towers {
namespace {

class LayerNorm final : public Layer {
public:
    explicit LayerNorm(Attributes& attributes)
        : epsilon_(float(attributes.number("epsilon", 1e-12, 1, 1e-5))), affine_(attributes) {}

    Shape output(std::span<const Shape> in) const override { return in[0]; }
    Computation computation(std::span<const Shape>) const override {
        return computation::LayerNorm{epsilon_, affine_.gamma, affine_.beta};
    }

    std::vector<Variable> variables(std::span<const Shape> in) const override {
        return affine_.variables(in[0].channels);
    }

    TensorId forward(LayerPlan& plan) const override {
        const TensorId y = plan.make_output();
        const TensorShape of_pixels{plan.batch, plan.in().height, plan.in().width};
        const TensorId mean = plan.make("mean", of_pixels), rstd = plan.make("rstd", of_pixels);
        plan.keep("mean", mean);
        plan.keep("rstd", rstd);
        plan.add("forward", kernels::layer_norm_forward,
                 {.x = plan.input(),
                  .gamma = affine_.gamma_of(plan),
                  .beta = affine_.beta_of(plan),
                  .y = y,
                  .mean = mean,
                  .rstd = rstd,
                  .rows = plan.out_pixels(),
                  .channels = plan.in().channels,
                  .epsilon = epsilon_,
                  .gamma_used = affine_.gamma ? 1u : 0u,
                  .beta_used = affine_.beta ? 1u : 0u});
        return y;
    }

    std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const override {
        if (affine_.learns(plan)) parameter_gradients(plan, dy);
        if (!plan.wants()) return {TensorId()};
        const TensorId dx = plan.make_gradient();
        plan.add("backward", kernels::layer_norm_backward,
                 {.x = plan.input(),
                  .dy = dy,
                  .mean = plan.kept("mean"),
                  .rstd = plan.kept("rstd"),
                  .gamma = affine_.gamma_of(plan),
                  .dx = dx,
                  .rows = plan.out_pixels(),
                  .channels = plan.in().channels,
                  .gamma_used = affine_.gamma ? 1u : 0u});
        return {dx};
    }

private:
    void parameter_gradients(LayerPlan& plan, TensorId dy) const {
        const unsigned channels = plan.in().channels;
        const TensorId s1 = plan.make("s1", {channels}), s2 = plan.make("s2", {channels});
        plan.add("parameter sums", kernels::layer_norm_parameter_sums,
                 {.x = plan.input(),
                  .dy = dy,
                  .mean = plan.kept("mean"),
                  .rstd = plan.kept("rstd"),
                  .s1 = s1,
                  .s2 = s2,
                  .rows = plan.out_pixels(),
                  .channels = channels,
                  .splits = 1});
        affine_.add_gradients(plan, s1, s2, 1);
    }

    float epsilon_;
    Affine affine_;
};

} // namespace

std::unique_ptr<const Layer> make_layer_norm(Attributes& attributes) {
    return std::make_unique<LayerNorm>(attributes);
}

} // namespace towers
