// The matrix product of the convolutions that the backend computes itself: C = A B, with as many rows and
// columns of C in registers as the processor has room for. Each element of C is one sum in the order of the
// depth, so every processor level computes the same bits.
#pragma once

#include "backends/cpu/simd.h"

namespace towers {
namespace {

#if defined(__AVX2__) && !defined(__AVX512F__) // 16 registers
constexpr size_t panel_vectors = 2;
constexpr size_t rows_of[] = {0, 12, 6}; ///< at once, by the number of vectors in a row
#else                                    // 32
constexpr size_t panel_vectors = 4;
constexpr size_t rows_of[] = {0, 12, 12, 8, 6};
#endif
constexpr size_t panel = panel_vectors * lanes; ///< columns that are multiplied at once

/// The depth is divided into runs of equal length. Along a run, A's elements of a row lie `step` floats
/// apart; the next run begins `stride` floats after the one before.
struct Runs {
    size_t length, step, stride;
};

template<size_t rows, size_t vectors>
inline void multiply_rows(const float* const (&row)[rows], const Runs& runs, const float* b, size_t b_stride,
                          size_t depth, bool add, float* c, size_t c_stride) {
    Vector sum[rows][vectors];
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (size_t j = 0; j < vectors; ++j) sum[i][j] = all(0.0f);
    for (size_t run = 0; depth != 0; run += runs.stride) {
        const size_t here = least(depth, runs.length);
        depth -= here;
        size_t k = run;
        for (size_t left = here; left != 0; --left, k += runs.step, b += b_stride) {
            Vector columns[vectors];
#pragma GCC unroll 4
            for (size_t j = 0; j < vectors; ++j) columns[j] = load(b + j * lanes);
#pragma GCC unroll 16
            for (size_t i = 0; i < rows; ++i) {
                const Vector factor = all(row[i][k]);
#pragma GCC unroll 4
                for (size_t j = 0; j < vectors; ++j) sum[i][j] = fma(factor, columns[j], sum[i][j]);
            }
        }
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (size_t j = 0; j < vectors; ++j) {
            float* const to = c + i * c_stride + j * lanes;
            store(to, add ? load(to) + sum[i][j] : sum[i][j]);
        }
}

/// `count` rows of C, which is at most `most`, and `vectors` vectors of each; row_at(i): row i of A.
template<size_t most, size_t vectors, class RowAt>
inline void multiply_some(size_t count, const RowAt& row_at, const Runs& runs, const float* b,
                          size_t b_stride, size_t depth, bool add, float* c, size_t c_stride) {
    if constexpr (most != 0) {
        if (count < most)
            return multiply_some<most - 1, vectors>(count, row_at, runs, b, b_stride, depth, add, c,
                                                    c_stride);
        const float* row[most];
        for (size_t n = 0; n < most; ++n) row[n] = row_at(n);
        multiply_rows<most, vectors>(row, runs, b, b_stride, depth, add, c, c_stride);
    }
}

/// All rows, in groups of about equal size: few rows at once leave the processor waiting for each sum.
template<size_t vectors, class RowAt>
inline void multiply_columns(const RowAt& row_at, const Runs& runs, const float* b, size_t b_stride,
                             size_t rows, size_t depth, bool add, float* c, size_t c_stride) {
    constexpr size_t most = rows_of[vectors];
    size_t first = 0;
    for (size_t groups = (rows + most - 1) / most; groups != 0; --groups) {
        const size_t count = (rows - first) / groups;
        multiply_some<most, vectors>(
            count, [&](size_t n) { return row_at(first + n); }, runs, b, b_stride, depth, add,
            c + first * c_stride, c_stride);
        first += count;
    }
}

/// C[rows, columns] = A B, added to C if `add`. At most `panel` columns, rounded up to whole vectors. Rows of
/// B and C lie `b_stride` and `c_stride` floats apart.
template<class RowAt>
inline void multiply(const RowAt& row_at, const Runs& runs, const float* b, size_t b_stride, size_t rows,
                     size_t columns, size_t depth, bool add, float* c, size_t c_stride) {
    switch ((columns + lanes - 1) / lanes) {
    case 1:
        return multiply_columns<1>(row_at, runs, b, b_stride, rows, depth, add, c, c_stride);
    case 2:
        return multiply_columns<2>(row_at, runs, b, b_stride, rows, depth, add, c, c_stride);
    default:
        if constexpr (panel_vectors == 4) {
            if (columns <= 3 * lanes)
                return multiply_columns<3>(row_at, runs, b, b_stride, rows, depth, add, c, c_stride);
            return multiply_columns<4>(row_at, runs, b, b_stride, rows, depth, add, c, c_stride);
        }
    }
}

} // namespace
} // namespace towers
