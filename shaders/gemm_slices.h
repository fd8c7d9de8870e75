// The product of gemm_tile.h where all channels come in fours: memory is read and written by quads, four
// floats side by side. While a workgroup multiplies one slice it loads the next, so that a slice needs one
// barrier and nobody waits for memory. A source of products first defines:
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
// (NAME_product.h), then includes the text that multiplies, gemm_quads.h or gemm_fragments.h, and uses
// GEMM_SLICES(M, N, products, splits). There are so many products side by side, none with more than M rows;
// `splits` share out the K of each. The text that multiplies defines:
//   TILE_K                              of a slice
//   PLACE_ALONG_K(i)                    see PLACE
//   a_slices, b_slices                  shared memory for two slices of each
//   KEEP_QUAD(slices, along_k, length, stage, i, quad)
//                                       a statement: writes the i-th quad to one of the two slices
//   OWN_PLACE                           declares what part of a tile is an invocation's
//   SUMS                                declares its sums, all 0
//   MULTIPLY(stage)                     adds a slice's products to them
//   STORE_SUMS(N)                       stores them, quad after quad

// How many quads of a slice an invocation loads
#define LOADS(length) ((length)*TILE_K / 4u / THREADS)
// Where the i-th of them lies: its first row (or column), and its first k
#define PLACE(along_k, length, i) (along_k != 0 ? PLACE_ALONG_K(i) : LOCAL_ID % ((length) / 4u) * 4u)
#define PLACE_K(along_k, length, i)                                                                          \
    (along_k != 0 ? LOCAL_ID % (TILE_K / 4u) * 4u                                                            \
                  : LOCAL_ID / ((length) / 4u) + (i) * (THREADS * 4u / (length)))
#define A_ROW(i) PLACE(A_ALONG_K, TILE_M, i)
#define A_K(i) PLACE_K(A_ALONG_K, TILE_M, i)
#define B_COLUMN(j) PLACE(B_ALONG_K, TILE_N, j)
#define B_K(j) PLACE_K(B_ALONG_K, TILE_N, j)

// From memory to registers, where the slice that begins at first_k waits for its turn
#define FETCH(first_k)                                                                                       \
    UNROLL for (uint i = 0u; i < LOADS(TILE_M); ++i) a_next[i] = LOAD_A(i, (first_k) + A_K(i) < end_k);      \
    UNROLL for (uint j = 0u; j < LOADS(TILE_N); ++j) b_next[j] = LOAD_B(j, (first_k) + B_K(j) < end_k);      \
    ADVANCE

// From registers to shared memory. Whether a quad is there is looked at only now, since whoever looks waits
// for memory.
#define KEEP(stage)                                                                                          \
    UNROLL for (uint i = 0u; i < LOADS(TILE_M); ++i)                                                         \
        KEEP_QUAD(a_slices, A_ALONG_K, TILE_M, stage, i, a_next[i].there ? a_next[i].quad : a_absent);       \
    UNROLL for (uint j = 0u; j < LOADS(TILE_N); ++j)                                                         \
        KEEP_QUAD(b_slices, B_ALONG_K, TILE_N, stage, j, b_next[j].there ? b_next[j].quad : vec4(0.0f));

#define GEMM_SLICES(M, N, products, splits)                                                                  \
    const uint tiles_n = ((N) + TILE_N - 1u) / TILE_N;                                                       \
    const uint tiles = ((M) + TILE_M - 1u) / TILE_M * tiles_n;                                               \
    OWN_PLACE                                                                                                \
    for (uint tile = GROUP_ID; tile < tiles * (splits) * (products); tile += GROUPS) {                       \
        const uint part = tile / tiles % (splits);                                                           \
        const uint first_m = tile % tiles / tiles_n * TILE_M;                                                \
        const uint first_n = tile % tiles % tiles_n * TILE_N;                                                \
        PRODUCT(tile / tiles / (splits))                                                                     \
        if (first_m >= rows) continue;                                                                       \
        const uint part_depth = ((depth + (splits)-1u) / (splits) + TILE_K - 1u) / TILE_K * TILE_K;          \
        const uint end_k = min((part + 1u) * part_depth, depth);                                             \
        SUMS Loaded a_next[LOADS(TILE_M)];                                                                   \
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
        STORE_SUMS(N)                                                                                        \
    }
