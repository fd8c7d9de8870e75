#include "backends/cpu/threads.h"
#include "backends/cpu/versions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

// Reductions over large tensors, with several sums side by side in a loop that the compiler vectorizes.

namespace towers {
namespace {

constexpr uint lanes = 32; // sums of a chunk; each takes every 32nd vec4
static_assert(REDUCTION_BLOCK % lanes == 0);

/// For each of this thread's chunks: calls `begin()`, then `add(first, count)` with the next vec4s, at most
/// one per lane, then `end(chunk)`.
template<class Begin, class Add, class End>
[[gnu::always_inline]] inline void for_chunks(uint quads, Invocation invocation, Begin begin, Add add,
                                              End end) {
    const uint last = invocation.end(REDUCTION_CHUNKS(quads));
    for (uint chunk = invocation.begin(REDUCTION_CHUNKS(quads)); chunk < last; ++chunk) {
        begin();
        const std::size_t stop = REDUCTION_BEGIN(quads, chunk + 1);
        for (std::size_t i = REDUCTION_BEGIN(quads, chunk); i < stop; i += lanes)
            add(i, std::min<std::size_t>(lanes, stop - i));
        end(chunk);
    }
}

using Sums = std::array<float, lanes>;

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
        p.partials.at[chunk] = 0.5f * p.decay * std::accumulate(sums.begin(), sums.end(), 0.0f);
    };
    for_chunks(p.quads, invocation, begin, add, end);
}

FOR_EACH_PROCESSOR_LEVEL
void sum_squares(const SumSquaresParams& p, Invocation invocation) {
    Sums sums;
    const auto begin = [&]() __attribute__((always_inline)) { sums.fill(0); };
    const auto add = [&](std::size_t first, std::size_t quads) __attribute__((always_inline)) {
        add_squares(&p.x.at[first].x, sums, quads);
    };
    const auto end = [&](std::size_t chunk) __attribute__((always_inline)) {
        p.partials.at[chunk] = std::accumulate(sums.begin(), sums.end(), 0.0f);
    };
    for_chunks(p.quads, invocation, begin, add, end);
}

FOR_EACH_PROCESSOR_LEVEL
void count_nonfinite(const CountNonfiniteParams& p, Invocation invocation) {
    std::array<uint, 4 * lanes> counts; // of each element of the vec4s
    const auto begin = [&]() __attribute__((always_inline)) { counts.fill(0); };
    const auto add = [&](std::size_t first, std::size_t quads) __attribute__((always_inline)) {
        const float* const x = &p.x.at[first].x;
        for (std::size_t i = 0; i < 4 * quads; ++i)
            counts[i] += (std::bit_cast<uint>(x[i]) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
    };
    const auto end = [&](std::size_t chunk) __attribute__((always_inline)) {
        p.counts.at[chunk] = std::accumulate(counts.begin(), counts.end(), 0u);
    };
    for_chunks(p.quads, invocation, begin, add, end);
}

std::span<const CpuVariant> reductions_overrides() {
    static constexpr CpuVariant overrides[] = {vectorized<kernels::weight_decay, weight_decay>(),
                                               vectorized<kernels::sum_squares, sum_squares>(),
                                               vectorized<kernels::count_nonfinite, count_nonfinite>()};
    return overrides;
}

} // namespace towers
