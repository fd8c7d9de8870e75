#include "gemm_slices.h"

// Multiplies on matrix units: operands are rounded on their way to shared memory, and a subgroup, or the
// whole workgroup, multiplies fragments of a matrix from there. The build defines the operands' type,
// OPERANDS_bf16, OPERANDS_fp16, OPERANDS_tf32 or OPERANDS_fp32; the last are sums of two bf16 numbers, of
// whose four products it adds up three. The words for this are the dialect's, used by all of a fragment's
// invocations together:
//   FRAGMENT_INVOCATIONS    so many: its owner
//   OWNER                   which of the owners
//   OWN_N                   how many columns of a tile an owner computes
//   FRAGMENT_ROWS, FRAGMENT_COLUMNS, FRAGMENT_K
//                           of sums, and how many k are summed up at once
//   OPERAND_PARTS           of an operand: 1; or 2, the rounded one and the rounded rest
//   OperandQuad             four operands side by side in shared memory
//   SHARED_OPERANDS(name, count)  declares so many of them
//   ROW_PADDING(along_k)    so many more of them in a row of shared memory, as its banks need
//   KEEP_OPERANDS(slices, at, part, quad)
//                           a statement: rounds four floats; the parts lie `part` apart
//   FragmentA, FragmentB    FRAGMENT_ROWS (FRAGMENT_COLUMNS) and FRAGMENT_K
//   LOAD_FRAGMENT_A(fragment, slices, at, along_k, row), LOAD_FRAGMENT_B(...)
//                           statements: from `at` on, where rows lie `row` apart
//   FragmentSum, NO_SUM     sums in float32, and all 0
//   multiply_add(a, b, sum), plus(sum, sum)
//   PATCHES(slices)         declares what QUADS_OF_FRAGMENT needs, which may use the slices for it
//   FRAGMENT_PIECES         in so many pieces sums become quads
//   FRAGMENT_QUADS, QUADS_OF_FRAGMENT(quads, sum, slices, piece)
//                           declares an invocation's share of a piece, so many quads
//   FRAGMENT_ROW(piece, q), FRAGMENT_COLUMN(q)
//                           where these begin
//   END_QUADS               a statement, after which the slices are free
#ifdef TOWERS_GLSL
#include "dialect/fragment_glsl.h"
#else
#include "dialect/fragment_cuda.h"
#endif

#ifdef OPERANDS_fp32
#define OPERAND_PARTS 2u
#else
#define OPERAND_PARTS 1u
#endif
#ifdef OPERANDS_tf32
#define TILE_K 16u
#else
#define TILE_K (32u / OPERAND_PARTS)
#endif

// A slice: rows of k, one for each row of A (column of B), or of each k a row of these
#define ROW_QUADS(along_k, length) ((along_k != 0 ? TILE_K : (length)) / 4u + ROW_PADDING(along_k))
#define PART_QUADS(along_k, length) ((along_k != 0 ? (length) : TILE_K) * ROW_QUADS(along_k, length))
#define SLICE_QUADS(along_k, length) (OPERAND_PARTS * PART_QUADS(along_k, length))
// Each begins at a multiple of 16 bytes, as their sizes are such multiples.
SHARED_OPERANDS(a_slices, 2u * SLICE_QUADS(A_ALONG_K, TILE_M));
SHARED_OPERANDS(b_slices, 2u * SLICE_QUADS(B_ALONG_K, TILE_N));
PATCHES(a_slices)

// Where in a slice the quad begins that has this place and k
#define QUAD_AT(along_k, length, place, k)                                                                   \
    (along_k != 0 ? (place)*ROW_QUADS(along_k, length) + (k) / 4u                                            \
                  : (k)*ROW_QUADS(along_k, length) + (place) / 4u)

// Of eight rows that neighbours keep, the order in which those of any half subgroup share no bank
FUNCTION uint spread(uint row) { return (row & ~7u) | (row & 1u) << 2u | (row & 2u) | (row >> 2u & 1u); }
#define PLACE_ALONG_K(i) spread(LOCAL_ID / (TILE_K / 4u)) + (i) * (THREADS * 4u / TILE_K)
#define KEEP_QUAD(slices, along_k, length, stage, i, quad)                                                   \
    {                                                                                                        \
        const uint at = (stage)*SLICE_QUADS(along_k, length) +                                               \
                        QUAD_AT(along_k, length, PLACE(along_k, length, i), PLACE_K(along_k, length, i));    \
        KEEP_OPERANDS(slices, at, PART_QUADS(along_k, length), quad)                                         \
    }

// What an owner computes: OWN_M x OWN_N of C
#define OWN_M (TILE_M * TILE_N / THREADS * FRAGMENT_INVOCATIONS / OWN_N)
#define DOWN (OWN_M / FRAGMENT_ROWS)
#define ACROSS (OWN_N / FRAGMENT_COLUMNS)
#define DEEP (TILE_K / FRAGMENT_K)
#define OWN_PLACE                                                                                            \
    const uint row = OWNER / (TILE_N / OWN_N) * OWN_M;                                                       \
    const uint column = OWNER % (TILE_N / OWN_N) * OWN_N;

#define SUMS                                                                                                 \
    FragmentSum sum[DOWN * ACROSS];                                                                          \
    UNROLL for (uint i = 0u; i < DOWN * ACROSS; ++i) sum[i] = NO_SUM;

// Of some fragments of A or B, that of the i-th rows or columns, and of all k
#define OPERAND(i, k, part) (((i)*DEEP + (k)) * OPERAND_PARTS + (part))

#ifndef OPERANDS_fp32
#define ADD_PRODUCT(to, k, j) to = multiply_add(a[k], b[OPERAND(j, k, 0u)], to);
#else // the product of both rests is too small to count
#define ADD_PRODUCT(to, k, j)                                                                                \
    to = multiply_add(a[OPERAND(0u, k, 1u)], b[OPERAND(j, k, 0u)], to);                                      \
    to = multiply_add(a[OPERAND(0u, k, 0u)], b[OPERAND(j, k, 1u)], to);                                      \
    to = multiply_add(a[OPERAND(0u, k, 0u)], b[OPERAND(j, k, 0u)], to);
#endif

// Matrix units truncate what they add up. So they add up a slice at most, and slices are added up elsewhere.
#define MULTIPLY(stage)                                                                                      \
    const uint a_at = (stage)*SLICE_QUADS(A_ALONG_K, TILE_M) + QUAD_AT(A_ALONG_K, TILE_M, row, 0u);          \
    const uint b_at = (stage)*SLICE_QUADS(B_ALONG_K, TILE_N) + QUAD_AT(B_ALONG_K, TILE_N, column, 0u);       \
    FragmentB b[ACROSS * DEEP * OPERAND_PARTS];                                                              \
    UNROLL for (uint j = 0u; j < ACROSS; ++j) UNROLL for (uint k = 0u; k < DEEP; ++k)                        \
        UNROLL for (uint part = 0u; part < OPERAND_PARTS; ++part){LOAD_FRAGMENT_B(                           \
            b[OPERAND(j, k, part)], b_slices,                                                                \
            b_at + part * PART_QUADS(B_ALONG_K, TILE_N) +                                                    \
                QUAD_AT(B_ALONG_K, TILE_N, j * FRAGMENT_COLUMNS, k * FRAGMENT_K),                            \
            B_ALONG_K, ROW_QUADS(B_ALONG_K, TILE_N))} UNROLL for (uint i = 0u; i < DOWN; ++i) {              \
        FragmentA a[DEEP * OPERAND_PARTS];                                                                   \
        UNROLL for (uint k = 0u; k < DEEP; ++k) UNROLL for (uint part = 0u; part < OPERAND_PARTS; ++part){   \
            LOAD_FRAGMENT_A(a[OPERAND(0u, k, part)], a_slices,                                               \
                            a_at + part * PART_QUADS(A_ALONG_K, TILE_M) +                                    \
                                QUAD_AT(A_ALONG_K, TILE_M, i * FRAGMENT_ROWS, k * FRAGMENT_K),               \
                            A_ALONG_K, ROW_QUADS(A_ALONG_K, TILE_M))} UNROLL for (uint j = 0u; j < ACROSS;   \
                                                                                  ++j) {                     \
            FragmentSum of_slice = NO_SUM;                                                                   \
            UNROLL for (uint k = 0u; k < DEEP; ++k){ADD_PRODUCT(of_slice, k, j)} sum[i * ACROSS + j] =       \
                plus(sum[i * ACROSS + j], of_slice);                                                         \
        }                                                                                                    \
    }

#define STORE_SUMS(N)                                                                                        \
    UNROLL for (uint i = 0u; i < DOWN; ++i) UNROLL for (uint j = 0u; j < ACROSS; ++j)                        \
        UNROLL for (uint piece = 0u; piece < FRAGMENT_PIECES; ++piece) {                                     \
        QUADS_OF_FRAGMENT(quads, sum[i * ACROSS + j], a_slices, piece)                                       \
        UNROLL for (uint q = 0u; q < FRAGMENT_QUADS; ++q) {                                                  \
            const uint m = first_m + row + i * FRAGMENT_ROWS + FRAGMENT_ROW(piece, q);                       \
            const uint n = first_n + column + j * FRAGMENT_COLUMNS + FRAGMENT_COLUMN(q);                     \
            if (m < rows && n < (N)) {                                                                       \
                STORE(m, n, part, quads[q]);                                                                 \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    END_QUADS
