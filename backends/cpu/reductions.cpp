#include "backends/cpu/threads.h"
#include "backends/cpu/versions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
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
void check_finite(const CheckFiniteParams& p, Invocation invocation) {
    const float* const x = &p.x.at[0].x;
    const std::size_t end = std::size_t(invocation.end(p.quads)) * 4;
    uint found = 0;
    for (std::size_t i = std::size_t(invocation.begin(p.quads)) * 4; i < end; ++i)
        found |= (std::bit_cast<uint>(x[i]) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
    if (found != 0) OR_ATOMICALLY(p.nonfinite.at[0], std::bit_cast<uint>(1.0f));
}

FOR_EACH_PROCESSOR_LEVEL
void histogram(const HistogramParams& p, Invocation invocation) {
    constexpr uint block = 4 * lanes;
    constexpr float most = std::numeric_limits<float>::max();
    std::array<uint, HISTOGRAM_WORDS> counts{}; // this thread's: threads that count in one place wait
    const uint quads = QUADS_OF(p.count), last = invocation.end(REDUCTION_CHUNKS(quads));
    for (uint chunk = invocation.begin(REDUCTION_CHUNKS(quads)); chunk < last; ++chunk) {
        std::array<float, block> least, largest, sums, squares;
        std::array<uint, block> words;
        least.fill(most);
        largest.fill(-most);
        sums.fill(0);
        squares.fill(0);
        const std::size_t stop =
            std::min<std::size_t>(std::size_t(REDUCTION_BEGIN(quads, chunk + 1)) * 4, p.count);
        for (std::size_t first = std::size_t(REDUCTION_BEGIN(quads, chunk)) * 4; first < stop;
             first += block) {
            const std::size_t here = std::min<std::size_t>(block, stop - first);
            const float* const values = p.x.at + first;
            INDEPENDENT
            for (std::size_t i = 0; i < here; ++i) {
                const float x = values[i];
                const uint bits = std::bit_cast<uint>(x), size = bits & 0x7fffffffu;
                const bool finite = size < 0x7f800000u;
                const uint above = std::min(((size - HISTOGRAM_LOW) >> HISTOGRAM_SHIFT) + 1u, HISTOGRAM_SIDE);
                const uint place = size < HISTOGRAM_LOW ? 0u : above;
                const uint bin = bits == size ? HISTOGRAM_SIDE + place : HISTOGRAM_SIDE - place;
                const uint word = size == 0u ? HISTOGRAM_ZEROS : bin;
                words[i] = finite ? word : HISTOGRAM_NONFINITE;
                const float counted = finite ? x : 0.0f;
                least[i] = std::min(least[i], finite ? x : most);
                largest[i] = std::max(largest[i], finite ? x : -most);
                sums[i] += counted;
                squares[i] += counted * counted;
            }
            for (std::size_t i = 0; i < here; ++i) ++counts[words[i]];
        }
        p.partials.at[chunk] = {*std::ranges::min_element(least), *std::ranges::max_element(largest),
                                std::accumulate(sums.begin(), sums.end(), 0.0f),
                                std::accumulate(squares.begin(), squares.end(), 0.0f)};
    }
    for (std::size_t i = 0; i < counts.size(); ++i)
        if (counts[i] != 0) ADD_ATOMICALLY(p.counts.at[i], counts[i]);
}

std::span<const CpuVariant> reductions_overrides() {
    static constexpr CpuVariant overrides[] = {
        vectorized<kernels::weight_decay, weight_decay>(), vectorized<kernels::sum_squares, sum_squares>(),
        vectorized<kernels::check_finite, check_finite>(), vectorized<kernels::histogram, histogram>()};
    return overrides;
}

} // namespace towers
