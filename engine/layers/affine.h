// Shared code of the normalizations: the learned scale and shift of each channel.
#pragma once

#include "engine/layers/layer.h"

namespace towers {

struct Affine {
    bool gamma, beta;
    float gamma_start;

    /// Reads `gamma`, `beta` and `gamma_start`.
    explicit Affine(Attributes& attributes)
        : gamma(attributes.flag("gamma", true)), beta(attributes.flag("beta", true)),
          gamma_start(float(attributes.number("gamma_start", -1e6, 1e6, 1))) {}

    std::vector<Variable> variables(unsigned channels) const {
        std::vector<Variable> all;
        if (gamma) all.push_back(variable("gamma", channels, gamma_start));
        if (beta) all.push_back(variable("beta", channels, 0));
        return all;
    }
    static Variable variable(const char* name, unsigned channels, float start) {
        return {.name = name, .shape = {channels}, .initial = Initial::constant(start), .axes = "channels"};
    }

    /// No tensor if there is no such variable.
    TensorId gamma_of(const LayerPlan& plan) const { return gamma ? plan.variable("gamma") : TensorId(); }
    TensorId beta_of(const LayerPlan& plan) const { return beta ? plan.variable("beta") : TensorId(); }

    bool learns_gamma(const LayerPlan& plan) const { return gamma && plan.changes("gamma"); }
    bool learns_beta(const LayerPlan& plan) const { return beta && plan.changes("beta"); }
    bool learns(const LayerPlan& plan) const { return learns_gamma(plan) || learns_beta(plan); }

    /// Adds up the sums of each of `groups`, [groups, channels]: of dy, and of dy times the normalized input.
    void add_gradients(LayerPlan& plan, TensorId dy_sums, TensorId xhat_sums, unsigned groups) const {
        plan.add("parameters gradient", kernels::batch_norm_parameter_gradients,
                 {.s1 = dy_sums,
                  .s2 = xhat_sums,
                  .dgamma = learns_gamma(plan) ? plan.gradient("gamma") : TensorId(),
                  .dbeta = learns_beta(plan) ? plan.gradient("beta") : TensorId(),
                  .groups = groups,
                  .channels = plan.in().channels,
                  .gamma_used = learns_gamma(plan) ? 1u : 0u,
                  .beta_used = learns_beta(plan) ? 1u : 0u});
    }
};

} // namespace towers
