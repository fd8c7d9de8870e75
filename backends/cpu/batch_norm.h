// Shared code of batch normalization forward and backward.
#pragma once

#include "backends/cpu/lines.h"
#include "backends/cpu/row_sums.h"

#include <cmath>

namespace towers {

/// The layer's output before a ReLU. Backward computes it again to see where the ReLU passed it, so both must
/// round it alike.
[[gnu::always_inline]] inline float batch_norm_output(float x, float mean, float factor, float beta) {
    return (x - mean) * factor + beta;
}

/// Chunks that are many enough for all threads, with loops of some length
template<class Params>
RowChunks batch_norm_chunks(const Params& p) {
    const std::size_t elements = std::size_t(p.groups) * p.rows * p.channels;
    return {p.groups, p.rows, p.channels, uint(std::clamp<std::size_t>(elements / 32768, 32, 512))};
}

/// Fills the lines with a group's means, with the factors of the distances from them, and with beta.
template<class Params>
[[gnu::always_inline]] inline void prepare_lines(const Params& p, const Lines& lines, uint group, float* mean,
                                                 float* factor, float* beta) {
    const std::size_t of_group = std::size_t(group) * p.channels;
    INDEPENDENT
    for (uint c = 0; c < p.channels; ++c) {
        mean[c] = p.mean.at[of_group + c];
        factor[c] = 1.0f / std::sqrt(p.m2.at[of_group + c] / p.count + p.epsilon);
    }
    if (p.gamma_used != 0)
        for (uint c = 0; c < p.channels; ++c) factor[c] *= p.gamma.at[c];
    for (uint c = 0; c < p.channels; ++c) beta[c] = p.beta_used != 0 ? p.beta.at[c] : 0.0f;
    for (float* const line : {mean, factor, beta}) repeat_row(lines, line);
}

} // namespace towers
