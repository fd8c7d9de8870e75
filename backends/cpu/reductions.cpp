#include "backends/cpu/threads.h"
#include "backends/cpu/versions.h"

#include <algorithm>
#include <array>
#include <bit>

// Reductions over large tensors in the order of memory, with the partial results of all chunks that share a
// block side by side. The shared text takes one chunk after the other and would read the same memory once per
// chunk. The results are equal to the bit.

namespace towers {
namespace {

/// For each of this thread's groups of chunks: calls `begin()`, then `add(first, count)` with every
/// REDUCTION_LANES vec4s, one per chunk, then `end(chunk)` with the first chunk.
template<class Begin, class Add, class End>
[[gnu::always_inline]] inline void for_blocks(uint quads, Invocation invocation, Begin begin, Add add,
                                              End end) {
    if (quads == 0) return;
    const uint last = invocation.end(REDUCTION_SHARERS(quads));
    for (uint sharer = invocation.begin(REDUCTION_SHARERS(quads)); sharer < last; ++sharer) {
        begin();
        const std::size_t stop =
            std::min<std::size_t>(quads, std::size_t(REDUCTION_BEGIN(quads, sharer + 1)) * REDUCTION_BLOCK);
        for (std::size_t i = std::size_t(REDUCTION_BEGIN(quads, sharer)) * REDUCTION_BLOCK; i < stop;
             i += REDUCTION_LANES)
            add(i, std::min<std::size_t>(REDUCTION_LANES, stop - i));
        end(sharer * REDUCTION_LANES);
    }
}

using Sums = std::array<float, REDUCTION_LANES>;

[[gnu::always_inline]] inline void add_squares(const float* __restrict x, Sums& sums, std::size_t quads) {
    for (std::size_t i = 0; i < quads; ++i) {
        const float* const v = x + 4 * i;
        sums[i] += v[0] * v[0] + v[1] * v[1] + (v[2] * v[2] + v[3] * v[3]);
    }
}

} // namespace

FOR_EACH_PROCESSOR_LEVEL
void weight_decay(const WeightDecayParams& p, Invocation invocation) {
    Sums sums;
    const auto begin = [&]() __attribute__((always_inline)) { sums.fill(0); };
    const auto add = [&](std::size_t first, std::size_t quads) __attribute__((always_inline)) {
        const float* const w = &p.w.at[first].x;
        float* const dw = &p.dw.at[first].x;
        INDEPENDENT
        for (std::size_t i = 0; i < 4 * quads; ++i) dw[i] += p.decay * w[i];
        add_squares(w, sums, quads);
    };
    const auto end = [&](std::size_t chunk) __attribute__((always_inline)) {
        for (std::size_t i = 0; i < sums.size(); ++i) p.partials.at[chunk + i] = 0.5f * p.decay * sums[i];
    };
    for_blocks(p.quads, invocation, begin, add, end);
}

FOR_EACH_PROCESSOR_LEVEL
void sum_squares(const SumSquaresParams& p, Invocation invocation) {
    Sums sums;
    const auto begin = [&]() __attribute__((always_inline)) { sums.fill(0); };
    const auto add = [&](std::size_t first, std::size_t quads) __attribute__((always_inline)) {
        add_squares(&p.x.at[first].x, sums, quads);
    };
    const auto end = [&](std::size_t chunk) __attribute__((always_inline)) {
        for (std::size_t i = 0; i < sums.size(); ++i) p.partials.at[chunk + i] = sums[i];
    };
    for_blocks(p.quads, invocation, begin, add, end);
}

FOR_EACH_PROCESSOR_LEVEL
void count_nonfinite(const CountNonfiniteParams& p, Invocation invocation) {
    std::array<uint, 4 * REDUCTION_LANES> counts; // of each element of the vec4s
    const auto begin = [&]() __attribute__((always_inline)) { counts.fill(0); };
    const auto add = [&](std::size_t first, std::size_t quads) __attribute__((always_inline)) {
        const float* const x = &p.x.at[first].x;
        for (std::size_t i = 0; i < 4 * quads; ++i)
            counts[i] += (std::bit_cast<uint>(x[i]) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
    };
    const auto end = [&](std::size_t chunk) __attribute__((always_inline)) {
        for (std::size_t i = 0; i < REDUCTION_LANES; ++i) {
            const uint* const of_quad = counts.data() + 4 * i;
            p.counts.at[chunk + i] = of_quad[0] + of_quad[1] + of_quad[2] + of_quad[3];
        }
    };
    for_blocks(p.quads, invocation, begin, add, end);
}

std::span<const CpuVariant> reductions_overrides() {
    static constexpr CpuVariant overrides[] = {vectorized<kernels::weight_decay, weight_decay>(),
                                               vectorized<kernels::sum_squares, sum_squares>(),
                                               vectorized<kernels::count_nonfinite, count_nonfinite>()};
    return overrides;
}

} // namespace towers
