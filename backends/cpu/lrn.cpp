#include "backends/cpu/threads.h"
#include "backends/cpu/versions.h"

#include <cmath>
#include <vector>

// Local response normalization one pixel at a time, in loops along the channels that the compiler vectorizes.
// It cannot vectorize the shared source, which takes four channels of a pixel at a time.

namespace towers {
namespace {

/// sums[c] = sum of padded[c .. c + 2 radius]: `padded` has `radius` zeros before and after the channels.
inline void window_sums(const float* __restrict padded, float* __restrict sums, uint channels, uint radius) {
    if (radius == 4) { // the tutorial's; unrolled, so that the sum stays in a register
#pragma omp simd
        for (uint c = 0; c < channels; ++c) {
            const float* const w = padded + c;
            sums[c] = ((w[0] + w[1]) + (w[2] + w[3])) + ((w[4] + w[5]) + (w[6] + w[7])) + w[8];
        }
        return;
    }
    for (uint c = 0; c < channels; ++c) sums[c] = padded[c];
    for (uint k = 1; k <= 2 * radius; ++k)
        for (uint c = 0; c < channels; ++c) sums[c] += padded[c + k];
}

inline void powers(const float* __restrict scale, float* __restrict power, uint channels, float beta) {
    if (beta == 0.75f) {
        for (uint c = 0; c < channels; ++c) {
            const float root = std::sqrt(scale[c]);
            power[c] = 1.0f / (root * std::sqrt(root));
        }
    } else {
        for (uint c = 0; c < channels; ++c) power[c] = std::pow(scale[c], -beta);
    }
}

} // namespace

FOR_EACH_PROCESSOR_LEVEL
void lrn_forward(const LrnForwardParams& p, Invocation invocation) {
    std::vector<float> scratch(3 * p.channels + 2 * p.radius);
    float* const sums = scratch.data();
    float* const power = sums + p.channels;
    float* const padded = power + p.channels;
    const uint end = invocation.end(p.pixels);
    for (uint pixel = invocation.begin(p.pixels); pixel < end; ++pixel) {
        const float* const x = p.x.at + std::size_t(pixel) * p.channels;
        float* const y = p.y.at + std::size_t(pixel) * p.channels;
        float* const scale = p.scale.at + std::size_t(pixel) * p.channels;
        for (uint c = 0; c < p.channels; ++c) padded[p.radius + c] = x[c] * x[c];
        window_sums(padded, sums, p.channels, p.radius);
        for (uint c = 0; c < p.channels; ++c) sums[c] = p.bias + p.alpha * sums[c];
        powers(sums, power, p.channels, p.beta);
        for (uint c = 0; c < p.channels; ++c) scale[c] = sums[c];
        for (uint c = 0; c < p.channels; ++c) y[c] = x[c] * power[c];
    }
}

FOR_EACH_PROCESSOR_LEVEL
void lrn_backward(const LrnBackwardParams& p, Invocation invocation) {
    std::vector<float> scratch(3 * p.channels + 2 * p.radius);
    float* const sums = scratch.data();
    float* const power = sums + p.channels;
    float* const padded = power + p.channels;
    const uint end = invocation.end(p.pixels);
    for (uint pixel = invocation.begin(p.pixels); pixel < end; ++pixel) {
        const std::size_t base = std::size_t(pixel) * p.channels;
        const float* const x = p.x.at + base;
        const float* const y = p.y.at + base;
        const float* const scale = p.scale.at + base;
        const float* const dy = p.dy.at + base;
        float* const dx = p.dx.at + base;
        for (uint c = 0; c < p.channels; ++c) padded[p.radius + c] = dy[c] * y[c] / scale[c];
        window_sums(padded, sums, p.channels, p.radius);
        powers(scale, power, p.channels, p.beta);
        const float factor = 2.0f * p.alpha * p.beta;
        for (uint c = 0; c < p.channels; ++c) power[c] = dy[c] * power[c] - factor * x[c] * sums[c];
        if (p.relu != 0) {
            for (uint c = 0; c < p.channels; ++c) power[c] = x[c] > 0.0f ? power[c] : 0.0f;
        }
        for (uint c = 0; c < p.channels; ++c) dx[c] = power[c];
    }
}

std::span<const CpuVariant> lrn_overrides() {
    static constexpr CpuVariant overrides[] = {vectorized<kernels::lrn_forward, lrn_forward>(),
                                               vectorized<kernels::lrn_backward, lrn_backward>()};
    return overrides;
}

} // namespace towers
