// Layer normalization (Ba, Kiros and Hinton 2016): y = (x - mean) / sqrt(variance + epsilon) * gamma + beta,
// with the statistics of each pixel's channels. Examples are independent, so there are neither groups nor
// moving statistics.
#include "engine/layers/affine.h"

#include <algorithm>

namespace towers {
namespace {

/// Into how many parts the sums over all pixels for gamma's and beta's gradients are cut: enough to fill a
/// wide device.
constexpr unsigned most_chunks = 512, least_chunk_rows = 32;

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
    /// Adds up chunks of pixels, then runs of chunks while there are many, and then the rest as batch norm
    /// adds up groups.
    void parameter_gradients(LayerPlan& plan, TensorId dy) const {
        const unsigned rows = plan.out_pixels(), channels = plan.in().channels;
        const unsigned chunk_rows = std::max(least_chunk_rows, (rows + most_chunks - 1) / most_chunks);
        unsigned parts = BATCH_NORM_CHUNKS(rows, chunk_rows);
        const TensorShape of_chunks{parts, channels};
        TensorId dy_sums = plan.make("dy sums", of_chunks), xhat_sums = plan.make("xhat sums", of_chunks);
        plan.add("parameter sums", kernels::layer_norm_parameter_sums,
                 {.x = plan.input(),
                  .dy = dy,
                  .mean = plan.kept("mean"),
                  .rstd = plan.kept("rstd"),
                  .dy_sums = dy_sums,
                  .xhat_sums = xhat_sums,
                  .rows = rows,
                  .channels = channels,
                  .chunk_rows = chunk_rows});
        if (parts > BATCH_NORM_RUN) {
            const unsigned runs = BATCH_NORM_CHUNKS(parts, BATCH_NORM_RUN);
            const TensorShape of_runs{runs, channels};
            const TensorId s1 = plan.make("s1", of_runs), s2 = plan.make("s2", of_runs);
            plan.add("merge sums", kernels::batch_norm_merge_sums,
                     {.dy_sums = dy_sums,
                      .xhat_sums = xhat_sums,
                      .s1 = s1,
                      .s2 = s2,
                      .groups = 1,
                      .chunks = parts,
                      .channels = channels,
                      .run = BATCH_NORM_RUN});
            dy_sums = s1;
            xhat_sums = s2;
            parts = runs;
        }
        affine_.add_gradients(plan, dy_sums, xhat_sums, parts);
    }

    float epsilon_;
    Affine affine_;
};

} // namespace

std::unique_ptr<const Layer> make_layer_norm(Attributes& attributes) {
    return std::make_unique<LayerNorm>(attributes);
}

} // namespace towers
