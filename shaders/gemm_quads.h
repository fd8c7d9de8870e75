// The product of gemm_tile.h where all channels come in fours: memory is read and written by quads, four
// floats side by side. While a workgroup multiplies one slice it loads the next, so that a slice needs one
// barrier and nobody waits for memory. An invocation computes blocks of 4 x 4 of C. An including file first
// defines:
//   TILE_M, TILE_N, THREADS             of tiles.def: rows, columns, invocations; the build defines them
//   A_ALONG_K, B_ALONG_K                1: the floats of a quad have four k and one row of A (column of B);
//                                       0: one k
//   PRODUCT(which)                      declares `rows` and `depth`, its M and K, and what else it is
//   BEGIN(first_m, first_n, first_k)    declares what addressing needs, worked out once per tile, and
//                                       `a_absent`, what A has where no quad is there; B has zeros
//   LOAD_A(i, there), LOAD_B(j, there)  an invocation's quads of a slice, each a Loaded (conv_quads.h), and
//                                       none unless `there`
//   ADVANCE                             a statement, which moves on by TILE_K
//   STORE(m, n, part, quad)             a statement
// and then uses GEMM_QUADS(M, N, products, splits). There are so many products side by side, none with more
// than M rows; `splits` share out the K of each.
#define TILE_K 16u

// The quads of a slice: of each k, `length` rows or columns. A quad of padding, and two where half of the k
// have passed, spread over all banks of shared memory the floats that 32 invocations keep at once.
#define ROW_QUADS(length) ((length) / 4u + 1u)
#define QUADS_BEFORE(length, k) ((k)*ROW_QUADS(length) + (k) / (TILE_K / 2u) * 2u)
#define SLICE_QUADS(length) QUADS_BEFORE(length, TILE_K)
SHARED_QUADS(a_slices, 2u * SLICE_QUADS(TILE_M));
SHARED_QUADS(b_slices, 2u * SLICE_QUADS(TILE_N));

// How many quads of a slice an invocation loads
#define LOADS(length) ((length)*TILE_K / 4u / THREADS)
// Where the i-th of them lies: its first row (or column), and its first k
#define PLACE(along_k, length, i)                                                                            \
    (along_k != 0 ? LOCAL_ID / (TILE_K / 4u) + (i) * (THREADS * 4u / TILE_K)                                 \
                  : LOCAL_ID % ((length) / 4u) * 4u)
#define PLACE_K(along_k, length, i)                                                                          \
    (along_k != 0 ? LOCAL_ID % (TILE_K / 4u) * 4u                                                            \
                  : LOCAL_ID / ((length) / 4u) + (i) * (THREADS * 4u / (length)))
#define A_ROW(i) PLACE(A_ALONG_K, TILE_M, i)
#define A_K(i) PLACE_K(A_ALONG_K, TILE_M, i)
#define B_COLUMN(j) PLACE(B_ALONG_K, TILE_N, j)
#define B_K(j) PLACE_K(B_ALONG_K, TILE_N, j)

// The blocks of 4 x 4 that an invocation computes, one below the other, BLOCK_ROWS blocks apart
#define BLOCKS (TILE_M * TILE_N / 16u / THREADS)
#define BLOCK_ROWS (TILE_M / 4u / BLOCKS)
#define BLOCK_COLUMNS (TILE_N / 4u)

// From memory to registers, where the slice that begins at first_k waits for its turn
#define FETCH(first_k)                                                                                       \
    UNROLL for (uint i = 0u; i < LOADS(TILE_M); ++i) a_next[i] = LOAD_A(i, (first_k) + A_K(i) < end_k);      \
    UNROLL for (uint j = 0u; j < LOADS(TILE_N); ++j) b_next[j] = LOAD_B(j, (first_k) + B_K(j) < end_k);      \
    ADVANCE

// From registers to shared memory, where the quads of one k lie side by side. Whether a quad is there is
// looked at only now, since whoever looks waits for memory.
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
#define KEEP(stage)                                                                                          \
    UNROLL for (uint i = 0u; i < LOADS(TILE_M); ++i)                                                         \
        KEEP_QUAD(a_slices, A_ALONG_K, TILE_M, stage, i, a_next[i].there ? a_next[i].quad : a_absent);       \
    UNROLL for (uint j = 0u; j < LOADS(TILE_N); ++j)                                                         \
        KEEP_QUAD(b_slices, B_ALONG_K, TILE_N, stage, j, b_next[j].there ? b_next[j].quad : vec4(0.0f));

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

// Each 32 invocations compute 4 x 8 blocks, arranged so that few of any 8 neighbours read different quads of
// shared memory.
#define GEMM_QUADS(M, N, products, splits)                                                                   \
    const uint tiles_n = ((N) + TILE_N - 1u) / TILE_N;                                                       \
    const uint tiles = ((M) + TILE_M - 1u) / TILE_M * tiles_n;                                               \
    const uint lane = LOCAL_ID % 32u;                                                                        \
    const uint row = LOCAL_ID / 32u / (BLOCK_COLUMNS / 8u) * 4u + ((lane >> 1u & 1u) | (lane >> 3u & 2u));   \
    const uint column = LOCAL_ID / 32u % (BLOCK_COLUMNS / 8u) * 8u + ((lane & 1u) | (lane >> 1u & 6u));      \
    for (uint tile = GROUP_ID; tile < tiles * (splits) * (products); tile += GROUPS) {                       \
        const uint part = tile / tiles % (splits);                                                           \
        const uint first_m = tile % tiles / tiles_n * TILE_M;                                                \
        const uint first_n = tile % tiles % tiles_n * TILE_N;                                                \
        PRODUCT(tile / tiles / (splits))                                                                     \
        if (first_m >= rows) continue;                                                                       \
        const uint part_depth = ((depth + (splits)-1u) / (splits) + TILE_K - 1u) / TILE_K * TILE_K;          \
        const uint end_k = min((part + 1u) * part_depth, depth);                                             \
        vec4 sum[BLOCKS * 4u];                                                                               \
        UNROLL for (uint i = 0u; i < BLOCKS * 4u; ++i) sum[i] = vec4(0.0f);                                  \
        Loaded a_next[LOADS(TILE_M)];                                                                        \
        Loaded b_next[LOADS(TILE_N)];                                                                        \
        BEGIN(first_m, first_n, part* part_depth)                                                            \
        FETCH(part* part_depth)                                                                              \
        KEEP(0u)                                                                                             \
        barrier();                                                                                           \
        uint stage = 0u;                                                                                     \
        for (uint first_k = part * part_depth; first_k < end_k; first_k += TILE_K) {                         \
            FETCH(first_k + TILE_K)                                                                          \
            MULTIPLY(stage)                                                                                  \
            stage = 1u - stage;                                                                              \
            KEEP(stage)                                                                                      \
            barrier();                                                                                       \
        }                                                                                                    \
        UNROLL for (uint i = 0u; i < BLOCKS * 4u; ++i) {                                                     \
            const uint m = first_m + (i / 4u * BLOCK_ROWS + row) * 4u + i % 4u;                              \
            const uint n = first_n + column * 4u;                                                            \
            if (m < rows && n < (N)) {                                                                       \
                STORE(m, n, part, sum[i]);                                                                   \
            }                                                                                                \
        }                                                                                                    \
    }
