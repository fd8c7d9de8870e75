#include "tests/conformance/reference_layer_norm.h"

#include <cmath>

namespace towers::reference {
namespace {

/// (x - mean) rstd
Values normal(const LayerNorm& norm, const LayerNormalized& normalized, Values x) {
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = (x[i] - normalized.mean[i / norm.channels]) * normalized.rstd[i / norm.channels];
    return x;
}

} // namespace

LayerNormalized layer_norm(const LayerNorm& norm, const Values& x) {
    LayerNormalized normalized;
    for (std::size_t row = 0; row < norm.rows; ++row) {
        double mean = 0, variance = 0;
        for (std::size_t c = 0; c < norm.channels; ++c) mean += x[row * norm.channels + c] / norm.channels;
        for (std::size_t c = 0; c < norm.channels; ++c)
            variance += std::pow(x[row * norm.channels + c] - mean, 2) / norm.channels;
        normalized.mean.push_back(mean);
        normalized.rstd.push_back(1 / std::sqrt(variance + norm.epsilon));
    }
    normalized.y = normal(norm, normalized, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (!norm.gamma.empty()) normalized.y[i] *= norm.gamma[i % norm.channels];
        if (!norm.beta.empty()) normalized.y[i] += norm.beta[i % norm.channels];
    }
    return normalized;
}

LayerNormGradients layer_norm_gradients(const LayerNorm& norm, const Values& x, const Values& dy) {
    const LayerNormalized normalized = layer_norm(norm, x);
    const Values xhat = normal(norm, normalized, x);
    LayerNormGradients gradients{Values(x.size()), Values(norm.channels), Values(norm.channels)};
    for (std::size_t row = 0; row < norm.rows; ++row) {
        double sum = 0, products = 0;
        const auto inner = [&](std::size_t i) {
            return norm.gamma.empty() ? dy[i] : dy[i] * norm.gamma[i % norm.channels];
        };
        for (std::size_t i = row * norm.channels; i < (row + 1) * norm.channels; ++i) {
            gradients.gamma[i % norm.channels] += dy[i] * xhat[i];
            gradients.beta[i % norm.channels] += dy[i];
            sum += inner(i);
            products += inner(i) * xhat[i];
        }
        for (std::size_t i = row * norm.channels; i < (row + 1) * norm.channels; ++i)
            gradients.x[i] =
                normalized.rstd[row] * (inner(i) - sum / norm.channels - xhat[i] * products / norm.channels);
    }
    return gradients;
}

} // namespace towers::reference
