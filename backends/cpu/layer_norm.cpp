#include "backends/cpu/row_sums.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/versions.h"

#include <algorithm>
#include <cmath>

// Layer normalization in loops along the channels that the compiler vectorizes. It cannot vectorize the
// shared source's sums, whose order it must keep.

namespace towers {
namespace {

template<bool gamma_used>
[[gnu::always_inline]] inline void backward(const LayerNormBackwardParams& p, Invocation invocation) {
    const float* const gamma = p.gamma.at;
    const uint end = invocation.end(p.rows);
    for (uint row = invocation.begin(p.rows); row < end; ++row) {
        const float* const x = p.x.at + std::size_t(row) * p.channels;
        const float* const dy = p.dy.at + std::size_t(row) * p.channels;
        float* const dx = p.dx.at + std::size_t(row) * p.channels;
        const float mean = p.mean.at[row], rstd = p.rstd.at[row];
        float sum = 0, products = 0;
#pragma omp simd reduction(+ : sum, products)
        for (uint c = 0; c < p.channels; ++c) {
            const float g = gamma_used ? dy[c] * gamma[c] : dy[c];
            sum += g;
            products += g * ((x[c] - mean) * rstd);
        }
        const float g_mean = sum / float(p.channels), product_mean = products / float(p.channels);
#pragma omp simd
        for (uint c = 0; c < p.channels; ++c) {
            const float g = gamma_used ? dy[c] * gamma[c] : dy[c];
            dx[c] = rstd * (g - g_mean - (x[c] - mean) * rstd * product_mean);
        }
    }
}

} // namespace

FOR_EACH_PROCESSOR_LEVEL
void layer_norm_forward(const LayerNormForwardParams& p, Invocation invocation) {
    const uint end = invocation.end(p.rows);
    for (uint row = invocation.begin(p.rows); row < end; ++row) {
        const float* const x = p.x.at + std::size_t(row) * p.channels;
        float* const y = p.y.at + std::size_t(row) * p.channels;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (uint c = 0; c < p.channels; ++c) sum += x[c];
        const float mean = sum / float(p.channels);
        float squares = 0;
#pragma omp simd reduction(+ : squares)
        for (uint c = 0; c < p.channels; ++c) squares += (x[c] - mean) * (x[c] - mean);
        const float rstd = 1.0f / std::sqrt(squares / float(p.channels) + p.epsilon);
#pragma omp simd
        for (uint c = 0; c < p.channels; ++c) y[c] = (x[c] - mean) * rstd;
        if (p.gamma_used != 0) {
#pragma omp simd
            for (uint c = 0; c < p.channels; ++c) y[c] *= p.gamma.at[c];
        }
        if (p.beta_used != 0) {
#pragma omp simd
            for (uint c = 0; c < p.channels; ++c) y[c] += p.beta.at[c];
        }
        p.mean.at[row] = mean;
        p.rstd.at[row] = rstd;
    }
}

FOR_EACH_PROCESSOR_LEVEL
void layer_norm_backward(const LayerNormBackwardParams& p, Invocation invocation) {
    if (p.gamma_used != 0)
        backward<true>(p, invocation);
    else
        backward<false>(p, invocation);
}

FOR_EACH_PROCESSOR_LEVEL
void parameter_sums_of_chunks(const LayerNormParameterSumsParams& p, const RowChunks& chunks,
                              const RowSums& to, Invocation invocation) {
    const uint end = invocation.end(chunks.in_group());
    for (uint chunk = invocation.begin(chunks.in_group()); chunk < end; ++chunk) {
        float* const sums = to.first + std::size_t(chunk) * p.channels;
        float* const products = to.second + std::size_t(chunk) * p.channels;
        std::fill_n(sums, p.channels, 0.0f);
        std::fill_n(products, p.channels, 0.0f);
        const uint last = std::min((chunk + 1) * chunks.chunk_rows, p.rows);
        for (uint row = chunk * chunks.chunk_rows; row < last; ++row) {
            const float* const x = p.x.at + std::size_t(row) * p.channels;
            const float* const dy = p.dy.at + std::size_t(row) * p.channels;
            const float mean = p.mean.at[row], rstd = p.rstd.at[row];
#pragma omp simd
            for (uint c = 0; c < p.channels; ++c) {
                sums[c] += dy[c];
                products[c] += dy[c] * ((x[c] - mean) * rstd);
            }
        }
    }
}

namespace {

Work parameter_sums(CpuContext& context, const Launch& launch, const LaunchConfig&) {
    const auto p = launch.parameters.as<LayerNormParameterSumsParams>();
    const RowChunks chunks{1, p.rows, p.channels, uint(std::max<std::uint64_t>(32, ceil_div(p.rows, 512)))};
    return sums_over_rows(context, p, chunks, {p.s1.at, p.s2.at}, parameter_sums_of_chunks, merge_sums);
}

} // namespace

std::span<const CpuVariant> layer_norm_overrides() {
    static constexpr CpuVariant overrides[] = {
        vectorized<kernels::layer_norm_forward, layer_norm_forward>(),
        vectorized<kernels::layer_norm_backward, layer_norm_backward>(),
        {{Kernel::layer_norm_parameter_sums, vectorized_loops, take_all}, parameter_sums}};
    return overrides;
}

} // namespace towers
