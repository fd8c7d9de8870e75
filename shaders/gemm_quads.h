#include "gemm_slices.h"

// Multiplies by quads: an invocation computes blocks of 4 x 4 of C.
#define TILE_K 16u

// The quads of a slice: of each k, `length` rows or columns side by side. A quad of padding, and two where
// half of the k have passed, spread over all banks of shared memory the floats that 32 invocations keep at
// once.
#define ROW_QUADS(length) ((length) / 4u + 1u)
#define QUADS_BEFORE(length, k) ((k)*ROW_QUADS(length) + (k) / (TILE_K / 2u) * 2u)
#define SLICE_QUADS(length) QUADS_BEFORE(length, TILE_K)
SHARED_QUADS(a_slices, 2u * SLICE_QUADS(TILE_M));
SHARED_QUADS(b_slices, 2u * SLICE_QUADS(TILE_N));

#define PLACE_ALONG_K(i) LOCAL_ID / (TILE_K / 4u) + (i) * (THREADS * 4u / TILE_K)
#define DISTANCE(along_k, length, i)                                                                         \
    (along_k != 0 ? (i) * (THREADS / TILE_K) : QUADS_BEFORE(length, (i) * (THREADS * 4u / (length))))
#define KEEP_QUAD(slices, along_k, length, stage, i, quad)                                                   \
    {                                                                                                        \
        const uint at = (stage)*SLICE_QUADS(length) + QUADS_BEFORE(length, PLACE_K(along_k, length, 0u)) +   \
                        PLACE(along_k, length, 0u) / 4u + DISTANCE(along_k, length, i);                      \
        const vec4 kept = quad;                                                                              \
        if (along_k != 0)                                                                                    \
            UNROLL for (uint c = 0u; c < 4u; ++c)                                                            \
                slices[at + c * ROW_QUADS(length)][PLACE(along_k, length, 0u) % 4u] = kept[c];               \
        else                                                                                                 \
            slices[at] = kept;                                                                               \
    }

// The blocks of 4 x 4 that an invocation computes, one below the other, BLOCK_ROWS blocks apart
#define BLOCKS (TILE_M * TILE_N / 16u / THREADS)
#define BLOCK_ROWS (TILE_M / 4u / BLOCKS)
#define BLOCK_COLUMNS (TILE_N / 4u)

// Each 32 invocations compute 4 x 8 blocks, arranged so that few of any 8 neighbours read different quads of
// shared memory.
#define OWN_PLACE                                                                                            \
    const uint lane = LOCAL_ID % 32u;                                                                        \
    const uint row = LOCAL_ID / 32u / (BLOCK_COLUMNS / 8u) * 4u + ((lane >> 1u & 1u) | (lane >> 3u & 2u));   \
    const uint column = LOCAL_ID / 32u % (BLOCK_COLUMNS / 8u) * 8u + ((lane & 1u) | (lane >> 1u & 6u));

#define SUMS                                                                                                 \
    vec4 sum[BLOCKS * 4u];                                                                                   \
    UNROLL for (uint i = 0u; i < BLOCKS * 4u; ++i) sum[i] = vec4(0.0f);

#define MULTIPLY(stage)                                                                                      \
    const uint a_at = (stage)*SLICE_QUADS(TILE_M) + row;                                                     \
    const uint b_at = (stage)*SLICE_QUADS(TILE_N) + column;                                                  \
    UNROLL for (uint k = 0u; k < TILE_K; ++k) {                                                              \
        const vec4 b = b_slices[b_at + QUADS_BEFORE(TILE_N, k)];                                             \
        UNROLL for (uint i = 0u; i < BLOCKS; ++i) {                                                          \
            const vec4 a = a_slices[a_at + QUADS_BEFORE(TILE_M, k) + i * BLOCK_ROWS];                        \
            UNROLL for (uint c = 0u; c < 4u; ++c) UNROLL for (uint d = 0u; d < 4u; ++d) sum[i * 4u + c][d] = \
                fma(a[c], b[d], sum[i * 4u + c][d]);                                                         \
        }                                                                                                    \
    }

#define STORE_SUMS(N)                                                                                        \
    UNROLL for (uint i = 0u; i < BLOCKS * 4u; ++i) {                                                         \
        const uint m = first_m + (i / 4u * BLOCK_ROWS + row) * 4u + i % 4u;                                  \
        const uint n = first_n + column * 4u;                                                                \
        if (m < rows && n < (N)) {                                                                           \
            STORE(m, n, part, sum[i]);                                                                       \
        }                                                                                                    \
    }
