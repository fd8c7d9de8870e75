#include "backends/cpu/batch_norm.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/versions.h"

#include <algorithm>
#include <vector>

// Batch normalization forward, in loops along the channels that the compiler vectorizes.

namespace towers {
namespace {

/// sums += x - shift, squares += (x - shift)^2 of `count` lines at once, so that the sums are loaded and
/// stored less often. Indices are std::size_t: 32-bit ones may wrap around, which would keep the compiler
/// from loading neighbours at once.
template<uint count>
[[gnu::always_inline]] inline void add_moments(const float* __restrict x, const float* __restrict shift,
                                               float* __restrict sums, float* __restrict squares,
                                               std::size_t width, std::size_t stride) {
    INDEPENDENT
    for (std::size_t i = 0; i < width; ++i) {
        float sum = sums[i], square = squares[i];
        for (std::size_t line = 0; line < count; ++line) {
            const float difference = x[line * stride + i] - shift[i];
            sum += difference;
            square += difference * difference;
        }
        sums[i] = sum;
        squares[i] = square;
    }
}

} // namespace

/// Uses differences from the chunk's first row, so that a mean far from zero does not cost M2 precision.
FOR_EACH_PROCESSOR_LEVEL
void moments_of_chunks(const BatchNormMomentsParams& p, const RowChunks& chunks, const RowSums& to,
                       Invocation invocation) {
    const Lines lines(p.channels);
    std::vector<float> scratch(3 * lines.width());
    float* const shift = scratch.data();
    float* const sums = shift + lines.width();
    float* const squares = sums + lines.width();
    const uint in_group = chunks.in_group();
    const uint end = invocation.end(p.groups * in_group);
    for (uint chunk = invocation.begin(p.groups * in_group); chunk < end; ++chunk) {
        const uint row = chunk % in_group * chunks.chunk_rows,
                   rows = std::min(chunks.chunk_rows, p.rows - row);
        const float* const x = p.x.at + (std::size_t(chunk / in_group) * p.rows + row) * p.channels;
        std::copy_n(x, p.channels, shift);
        repeat_row(lines, shift);
        std::fill(sums, squares + lines.width(), 0.0f);
        for_lines(
            lines, rows, [&](auto count, std::size_t offset, uint width) __attribute__((always_inline)) {
                add_moments<count>(x + offset, shift, sums, squares, width, lines.width());
            });
        join_rows(lines, sums);
        join_rows(lines, squares);
        float* const means = to.first + std::size_t(chunk) * p.channels;
        float* const m2s = to.second + std::size_t(chunk) * p.channels;
        INDEPENDENT
        for (uint c = 0; c < p.channels; ++c) {
            const float shifted_mean = sums[c] / float(rows);
            const float m2 = squares[c] - sums[c] * shifted_mean;
            means[c] = shift[c] + shifted_mean;
            m2s[c] = m2 < 0.0f ? 0.0f : m2;
        }
    }
}

/// First computes the chunks' common mean, then each chunk's contribution to M2 from its distance to that
/// mean.
FOR_EACH_PROCESSOR_LEVEL
void merge_moments(const RowChunks& chunks, const RowSums& from, const RowSums& to, Invocation invocation) {
    const uint in_group = chunks.in_group(), runs = chunks.merged().in_group(), channels = chunks.channels;
    const auto rows_of = [&](uint chunk) {
        return float(std::min(chunks.chunk_rows, chunks.rows - chunk * chunks.chunk_rows));
    };
    const uint last = invocation.end(chunks.groups * runs);
    for (uint i = invocation.begin(chunks.groups * runs); i < last; ++i) {
        const uint begin = i % runs * RowChunks::run, end = std::min(begin + RowChunks::run, in_group);
        const std::size_t first = std::size_t(i / runs) * in_group * channels;
        const float* const means = from.first + first;
        const float* const m2s = from.second + first;
        const float* const shift = means + std::size_t(begin) * channels;
        float* const mean = to.first + std::size_t(i) * channels;
        float* const m2 = to.second + std::size_t(i) * channels;
        std::fill_n(mean, channels, 0.0f);
        std::fill_n(m2, channels, 0.0f);
        float count = 0;
        for (uint chunk = begin; chunk < end; ++chunk) {
            const float rows = rows_of(chunk);
            const float* const here = means + std::size_t(chunk) * channels;
            count += rows;
            INDEPENDENT
            for (uint c = 0; c < channels; ++c) mean[c] += rows * (here[c] - shift[c]);
        }
        INDEPENDENT
        for (uint c = 0; c < channels; ++c) mean[c] = shift[c] + mean[c] / count;
        for (uint chunk = begin; chunk < end; ++chunk) {
            const float rows = rows_of(chunk);
            const float* const here = means + std::size_t(chunk) * channels;
            const float* const m2_here = m2s + std::size_t(chunk) * channels;
            INDEPENDENT
            for (uint c = 0; c < channels; ++c) {
                const float difference = here[c] - mean[c];
                m2[c] += m2_here[c] + rows * difference * difference;
            }
        }
    }
}

namespace {

template<bool relu, bool add>
[[gnu::always_inline]] inline void normalize(const BatchNormForwardParams& p, Invocation invocation) {
    const Lines lines(p.channels);
    std::vector<float> scratch(3 * lines.width());
    float* const mean = scratch.data();
    float* const factor = mean + lines.width();
    float* const beta = factor + lines.width();
    const auto prepare = [&](uint group) __attribute__((always_inline)) {
        prepare_lines(p, lines, group, mean, factor, beta);
    };
    const auto write = [&](std::size_t at, uint width) __attribute__((always_inline)) {
        const float* const x = p.x.at + at;
        const float* const addend = add ? p.addend.at + at : nullptr;
        float* const y = p.y.at + at;
        INDEPENDENT
        for (uint i = 0; i < width; ++i) {
            float value = batch_norm_output(x[i], mean[i], factor[i], beta[i]);
            if constexpr (add) value += addend[i];
            if constexpr (relu) value = value < 0.0f ? 0.0f : value; // a NaN stays
            y[i] = value;
        }
    };
    for_lines_of_groups(lines, p.groups, p.rows, invocation, prepare, write);
}

} // namespace

FOR_EACH_PROCESSOR_LEVEL
void batch_norm_forward(const BatchNormForwardParams& p, Invocation invocation) {
    if (p.addend_used != 0)
        p.relu != 0 ? normalize<true, true>(p, invocation) : normalize<false, true>(p, invocation);
    else
        p.relu != 0 ? normalize<true, false>(p, invocation) : normalize<false, false>(p, invocation);
}

namespace {

Work moments(CpuContext& context, const Launch& launch, const LaunchConfig&) {
    const auto p = launch.parameters.as<BatchNormMomentsParams>();
    return sums_over_rows(context, p, batch_norm_chunks(p), {p.mean.at, p.m2.at}, moments_of_chunks,
                          merge_moments);
}

} // namespace

std::span<const CpuVariant> batch_norm_overrides() {
    static constexpr CpuVariant overrides[] = {
        {{Kernel::batch_norm_moments, vectorized_loops, take_all}, moments},
        vectorized<kernels::batch_norm_forward, batch_norm_forward>()};
    return overrides;
}

} // namespace towers
