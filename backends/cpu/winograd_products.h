// The products at one point of the transformed domain; see winograd_kernels.h.
#pragma once

#include "backends/cpu/product.h"
#include "backends/cpu/winograd.h"

namespace towers {
namespace {

constexpr size_t widest_chunk = 3 * lanes;
constexpr size_t deepest = 240; ///< of one sum in registers; a multiple of every chunk

/// M = V U at one point, for one panel, added to M if `add`. Chunks of V lie `v_stride` floats apart.
inline void multiply_input(const WinogradShape& s, const float* v, size_t v_stride, const float* u,
                           size_t tiles, size_t columns, size_t in_channels, bool add, float* products) {
    for (size_t k = 0; k < in_channels; k += deepest) {
        const float* const from = v + k / s.chunk * v_stride;
        multiply([&](size_t tile) { return from + tile * s.chunk; }, {s.chunk, 1, v_stride}, u + k * s.panel,
                 s.panel, tiles, columns, least(in_channels - k, deepest), add || k != 0, products, s.panel);
    }
}

/// D = V^T dy at one point, for one chunk and one panel, likewise
inline void multiply_gradient(const WinogradShape& s, const float* v, const float* dy, size_t in_channels,
                              size_t columns, size_t tiles, bool add, float* sums) {
    multiply([&](size_t c) { return v + c; }, {tiles, s.chunk, 0}, dy, s.panel, in_channels, columns, tiles,
             add, sums, s.panel);
}

} // namespace
} // namespace towers
