#include "backends/cpu/batch_norm.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/versions.h"

#include <algorithm>
#include <vector>

// Batch normalization backward, in loops along the channels that the compiler vectorizes.

namespace towers {
namespace {

/// No gradient passes where a ReLU follows and the layer's own output was not above zero.
template<bool relu>
[[gnu::always_inline]] inline float passed(float dy, float x, float mean, float factor, float beta) {
    if constexpr (relu) return batch_norm_output(x, mean, factor, beta) > 0.0f ? dy : 0.0f;
    return dy;
}

/// sums += dy, products += dy * (x - mean) of `count` lines.
template<bool relu, uint count>
[[gnu::always_inline]] inline void
add_products(const float* __restrict x, const float* __restrict dy, const float* __restrict mean,
             const float* __restrict factor, const float* __restrict beta, float* __restrict sums,
             float* __restrict products, std::size_t width, std::size_t stride) {
    INDEPENDENT
    for (std::size_t i = 0; i < width; ++i) {
        float sum = sums[i], product = products[i];
        for (std::size_t line = 0; line < count; ++line) {
            const float value = x[line * stride + i];
            const float gradient = passed<relu>(dy[line * stride + i], value, mean[i], factor[i], beta[i]);
            sum += gradient;
            product += gradient * (value - mean[i]);
        }
        sums[i] = sum;
        products[i] = product;
    }
}

template<bool relu>
[[gnu::always_inline]] inline void sums_of_chunks(const BatchNormBackwardSumsParams& p,
                                                  const RowChunks& chunks, const RowSums& to,
                                                  Invocation invocation) {
    const Lines lines(p.channels);
    std::vector<float> scratch(5 * lines.width());
    float* const mean = scratch.data();
    float* const factor = mean + lines.width();
    float* const beta = factor + lines.width();
    float* const sums = beta + lines.width();
    float* const products = sums + lines.width();
    const uint in_group = chunks.in_group();
    const uint begin = invocation.begin(p.groups * in_group), end = invocation.end(p.groups * in_group);
    for (uint chunk = begin; chunk < end; ++chunk) {
        const uint row = chunk % in_group * chunks.chunk_rows;
        const std::size_t of_group = std::size_t(chunk / in_group) * p.channels;
        const std::size_t first = (std::size_t(chunk / in_group) * p.rows + row) * p.channels;
        if (chunk == begin || row == 0) prepare_lines(p, lines, chunk / in_group, mean, factor, beta);
        std::fill(sums, products + lines.width(), 0.0f);
        for_lines(
            lines, std::min(chunks.chunk_rows, p.rows - row),
            [&](auto count, std::size_t offset, uint width) __attribute__((always_inline)) {
                const std::size_t at = first + offset;
                add_products<relu, count>(p.x.at + at, p.dy.at + at, mean, factor, beta, sums, products,
                                          width, lines.width());
            });
        join_rows(lines, sums);
        join_rows(lines, products);
        float* const s1 = to.first + std::size_t(chunk) * p.channels;
        float* const s2 = to.second + std::size_t(chunk) * p.channels;
        const float* const m2 = p.m2.at + of_group;
        for (uint c = 0; c < p.channels; ++c) s1[c] = sums[c];
        INDEPENDENT
        for (uint c = 0; c < p.channels; ++c)
            s2[c] = products[c] * (1.0f / std::sqrt(m2[c] / p.count + p.epsilon));
    }
}

template<bool relu>
[[gnu::always_inline]] inline void backward(const BatchNormBackwardParams& p, Invocation invocation) {
    const Lines lines(p.channels);
    std::vector<float> scratch(5 * lines.width());
    float* const mean = scratch.data();
    float* const factor = mean + lines.width();
    float* const beta = factor + lines.width();
    float* const mean_dy = beta + lines.width();
    float* const slope = mean_dy + lines.width();
    const auto prepare = [&](uint group) __attribute__((always_inline)) {
        const std::size_t of_group = std::size_t(group) * p.channels;
        prepare_lines(p, lines, group, mean, factor, beta);
        if (p.sums_used == 0) return; // the scratch lines stay zero
        INDEPENDENT
        for (uint c = 0; c < p.channels; ++c) {
            const float rstd = 1.0f / std::sqrt(p.m2.at[of_group + c] / p.count + p.epsilon);
            mean_dy[c] = p.s1.at[of_group + c] / p.count;
            slope[c] = rstd * (p.s2.at[of_group + c] / p.count);
        }
        for (float* const line : {mean_dy, slope}) repeat_row(lines, line);
    };
    const auto write = [&](std::size_t at, uint width) __attribute__((always_inline)) {
        const float* const x = p.x.at + at;
        const float* const dy = p.dy.at + at;
        float* const dx = p.dx.at + at;
        INDEPENDENT
        for (uint i = 0; i < width; ++i) {
            const float gradient = passed<relu>(dy[i], x[i], mean[i], factor[i], beta[i]);
            dx[i] = factor[i] * (gradient - mean_dy[i] - (x[i] - mean[i]) * slope[i]);
        }
    };
    for_lines_of_groups(lines, p.groups, p.rows, invocation, prepare, write);
}

} // namespace

FOR_EACH_PROCESSOR_LEVEL
void backward_sums_of_chunks(const BatchNormBackwardSumsParams& p, const RowChunks& chunks, const RowSums& to,
                             Invocation invocation) {
    if (p.relu != 0)
        sums_of_chunks<true>(p, chunks, to, invocation);
    else
        sums_of_chunks<false>(p, chunks, to, invocation);
}

FOR_EACH_PROCESSOR_LEVEL
void merge_sums(const RowChunks& chunks, const RowSums& from, const RowSums& to, Invocation invocation) {
    const uint in_group = chunks.in_group(), runs = chunks.merged().in_group(), channels = chunks.channels;
    const uint last = invocation.end(chunks.groups * runs);
    for (uint i = invocation.begin(chunks.groups * runs); i < last; ++i) {
        const uint begin = i % runs * RowChunks::run, end = std::min(begin + RowChunks::run, in_group);
        float* const first = to.first + std::size_t(i) * channels;
        float* const second = to.second + std::size_t(i) * channels;
        std::fill_n(first, channels, 0.0f);
        std::fill_n(second, channels, 0.0f);
        for (uint chunk = begin; chunk < end; ++chunk) {
            const std::size_t at = (std::size_t(i / runs) * in_group + chunk) * channels;
            INDEPENDENT
            for (uint c = 0; c < channels; ++c) first[c] += from.first[at + c];
            INDEPENDENT
            for (uint c = 0; c < channels; ++c) second[c] += from.second[at + c];
        }
    }
}

FOR_EACH_PROCESSOR_LEVEL
void batch_norm_backward(const BatchNormBackwardParams& p, Invocation invocation) {
    if (p.relu != 0)
        backward<true>(p, invocation);
    else
        backward<false>(p, invocation);
}

namespace {

Work sums(CpuContext& context, const Launch& launch, const LaunchConfig&) {
    const auto p = launch.parameters.as<BatchNormBackwardSumsParams>();
    return sums_over_rows(context, p, batch_norm_chunks(p), {p.s1.at, p.s2.at}, backward_sums_of_chunks,
                          merge_sums);
}

} // namespace

std::span<const CpuVariant> batch_norm_backward_overrides() {
    static constexpr CpuVariant overrides[] = {
        {{Kernel::batch_norm_backward_sums, vectorized_loops, take_all}, sums},
        vectorized<kernels::batch_norm_backward, batch_norm_backward>()};
    return overrides;
}

} // namespace towers
