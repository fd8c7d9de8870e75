// The tiled matrix product of all convolutions: C[M, N] = A[M, K] B[K, N]; neither A nor B is stored as such.
// A workgroup computes TILE_M x TILE_N of C from slices TILE_K deep that it keeps in shared memory; an
// invocation computes every 16th row and column of them. An including file first defines:
//   TILE_M, TILE_N                of tiles.def; the build defines them
//   Row, ROW_OF(m)                what addressing needs of row m of A, worked out once per tile
//   Step, STEP_OF(k)              likewise for the index k that is summed over, once per slice
//   LOAD_A(row, step), LOAD_B(k, step, n)
//   STORE(m, n, part, value)      a statement
// and then uses GEMM_TILES(M, N, K, groups, splits). There are `groups` such products, side by side; in the
// above, `group` is which. `splits` share out K; each stores its own part. (SwiftShader crashes on functions
// that take a block with pointers in it; one pointer is fine.)
#define TILE_K 16u
#define SIDE 16u

// A is stored by columns; one extra word per row spreads a column over the banks of shared memory.
#define A_STRIDE (TILE_M + 1u)
shared float a_slice[TILE_K * A_STRIDE];
shared float b_slice[TILE_K * TILE_N];

// If the loop over k were fully unrolled, it would need so many registers that an Adreno 660 spills some and
// fewer workgroups fit on every chip.
#define GEMM_TILES(M, N, K, groups, splits)                                                                  \
    const uint tiles_n = ((N) + TILE_N - 1u) / TILE_N;                                                       \
    const uint tiles = ((M) + TILE_M - 1u) / TILE_M * tiles_n;                                               \
    const uint depth = (((K) + (splits)-1u) / (splits) + TILE_K - 1u) / TILE_K * TILE_K;                     \
    const uint row = LOCAL_ID / SIDE;                                                                        \
    const uint column = LOCAL_ID % SIDE;                                                                     \
    for (uint tile = GROUP_ID; tile < tiles * (splits) * (groups); tile += GROUPS) {                         \
        const uint group = tile / tiles / (splits);                                                          \
        const uint part = tile / tiles % (splits);                                                           \
        const uint first_m = tile % tiles / tiles_n * TILE_M;                                                \
        const uint first_n = tile % tiles % tiles_n * TILE_N;                                                \
        const uint end_k = min((part + 1u) * depth, (K));                                                    \
        Row rows[TILE_M / SIDE];                                                                             \
        UNROLL for (uint i = 0u; i < TILE_M / SIDE; ++i) rows[i] = ROW_OF(first_m + i * SIDE + row);         \
        float sum[TILE_M / SIDE * (TILE_N / SIDE)];                                                          \
        UNROLL for (uint i = 0u; i < TILE_M / SIDE * (TILE_N / SIDE); ++i) sum[i] = 0.0f;                    \
        for (uint first_k = part * depth; first_k < end_k; first_k += TILE_K) {                              \
            const uint k_a = first_k + column;                                                               \
            const uint k_b = first_k + row;                                                                  \
            const Step step_a = STEP_OF(k_a);                                                                \
            const Step step_b = STEP_OF(k_b);                                                                \
            UNROLL for (uint i = 0u; i < TILE_M / SIDE; ++i) a_slice[column * A_STRIDE + i * SIDE + row] =   \
                k_a < end_k && first_m + i * SIDE + row < (M) ? LOAD_A(rows[i], step_a) : 0.0f;              \
            UNROLL for (uint j = 0u; j < TILE_N / SIDE; ++j) b_slice[row * TILE_N + j * SIDE + column] =     \
                k_b < end_k && first_n + j * SIDE + column < (N)                                             \
                    ? LOAD_B(k_b, step_b, first_n + j * SIDE + column)                                       \
                    : 0.0f;                                                                                  \
            barrier();                                                                                       \
            FOR_PARTLY_UNROLLED(k, TILE_K) {                                                                 \
                float a[TILE_M / SIDE];                                                                      \
                float b[TILE_N / SIDE];                                                                      \
                UNROLL for (uint i = 0u; i < TILE_M / SIDE; ++i) a[i] =                                      \
                    a_slice[k * A_STRIDE + i * SIDE + row];                                                  \
                UNROLL for (uint j = 0u; j < TILE_N / SIDE; ++j) b[j] =                                      \
                    b_slice[k * TILE_N + j * SIDE + column];                                                 \
                UNROLL for (uint i = 0u; i < TILE_M / SIDE; ++i)                                             \
                    UNROLL for (uint j = 0u; j < TILE_N / SIDE; ++j) sum[i * (TILE_N / SIDE) + j] =          \
                        fma(a[i], b[j], sum[i * (TILE_N / SIDE) + j]);                                       \
            }                                                                                                \
            barrier();                                                                                       \
        }                                                                                                    \
        UNROLL for (uint i = 0u; i < TILE_M / SIDE; ++i)                                                     \
            UNROLL for (uint j = 0u; j < TILE_N / SIDE;                                                      \
                        ++j) if (first_m + i * SIDE + row < (M) && first_n + j * SIDE + column < (N))        \
                STORE(first_m + i * SIDE + row, first_n + j * SIDE + column, part,                           \
                      sum[i * (TILE_N / SIDE) + j]);                                                         \
    }
