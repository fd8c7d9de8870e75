// The matrix products between Winograd's transforms, in the blocked layouts of winograd.h: C = A B, with as
// many rows and columns of C in registers as the processor has room for. Each element of C is one sum in the
// order of the depth, so every processor level computes the same bits.
#pragma once

#include "backends/cpu/simd.h"

namespace towers {
namespace {

#if defined(__AVX2__) && !defined(__AVX512F__) // 16 registers
constexpr size_t panel_vectors = 2;
constexpr size_t rows_of[] = {0, 12, 6}; ///< by the number of vectors in a row
#else                                    // 32
constexpr size_t panel_vectors = 4;
constexpr size_t rows_of[] = {0, 12, 12, 8, 6};
#endif
constexpr size_t panel = panel_vectors * lanes;
constexpr size_t chunk = lanes == 4 ? 24 : 3 * lanes; ///< a multiple of lanes and of all of rows_of
constexpr size_t deepest = 240;                       ///< of one sum in registers; a multiple of every chunk

/// Rows of C. A is [rows][chunk] in chunks that lie `a_stride` floats apart, or transposed one
/// [depth][chunk].
template<bool transposed, size_t rows, size_t vectors>
inline void multiply_rows(const float* a, size_t a_stride, const float* b, size_t depth, bool add, float* c) {
    Vector sum[rows][vectors];
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (size_t j = 0; j < vectors; ++j) sum[i][j] = all(0.0f);
    for (size_t left = depth; left != 0;) {
        const size_t here = transposed ? left : least(left, chunk);
        for (size_t k = 0; k < here; ++k, b += panel) {
            Vector row[vectors];
#pragma GCC unroll 4
            for (size_t j = 0; j < vectors; ++j) row[j] = load(b + j * lanes);
#pragma GCC unroll 16
            for (size_t i = 0; i < rows; ++i) {
                const Vector factor = all(a[transposed ? k * chunk + i : i * chunk + k]);
#pragma GCC unroll 4
                for (size_t j = 0; j < vectors; ++j) sum[i][j] = fma(factor, row[j], sum[i][j]);
            }
        }
        a += a_stride;
        left -= here;
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (size_t j = 0; j < vectors; ++j) {
            float* const to = c + i * panel + j * lanes;
            store(to, add ? load(to) + sum[i][j] : sum[i][j]);
        }
}

/// `rows` rows of C and `vectors` vectors of each
template<bool transposed, size_t vectors>
inline void multiply_panel(const float* a, size_t a_stride, const float* b, size_t rows, size_t depth,
                           bool add, float* c) {
    const auto row = [&](size_t i) {
        return transposed ? a + i / chunk * a_stride + i % chunk : a + i * chunk;
    };
    size_t i = 0;
    for (; i + rows_of[vectors] <= rows; i += rows_of[vectors])
        multiply_rows<transposed, rows_of[vectors], vectors>(row(i), a_stride, b, depth, add, c + i * panel);
    for (; i + 2 <= rows; i += 2)
        multiply_rows<transposed, 2, vectors>(row(i), a_stride, b, depth, add, c + i * panel);
    if (i < rows) multiply_rows<transposed, 1, vectors>(row(i), a_stride, b, depth, add, c + i * panel);
}

/// C[rows, columns] (+)= A B of one panel. B: [depth][panel], C: [rows][panel].
template<bool transposed>
inline void multiply(const float* a, size_t a_stride, const float* b, size_t rows, size_t columns,
                     size_t depth, bool add, float* c) {
    const auto part = [&](const float* from_a, const float* from_b, size_t steps, bool adds) {
        switch ((columns + lanes - 1) / lanes) {
        case 1:
            return multiply_panel<transposed, 1>(from_a, a_stride, from_b, rows, steps, adds, c);
        case 2:
            return multiply_panel<transposed, 2>(from_a, a_stride, from_b, rows, steps, adds, c);
        default:
            if constexpr (panel_vectors == 4) {
                if (columns <= 3 * lanes)
                    return multiply_panel<transposed, 3>(from_a, a_stride, from_b, rows, steps, adds, c);
                return multiply_panel<transposed, 4>(from_a, a_stride, from_b, rows, steps, adds, c);
            }
        }
    };
    for (size_t k = 0; k < depth; k += deepest)
        part(a + (transposed ? k * chunk : k / chunk * a_stride), b + k * panel, least(depth - k, deepest),
             add || k != 0);
}

} // namespace
} // namespace towers
