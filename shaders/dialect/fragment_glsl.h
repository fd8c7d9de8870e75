// Fragments (shaders/gemm_fragments.h) for glslang: cooperative matrices, whose elements the driver divides
// among the invocations of a scope. The pipeline says of which shape and scope.
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#ifdef MATRICES_OF_ANY_SIZE
#extension GL_NV_cooperative_matrix2 : require
#endif
#include "rounded_words.h"

layout(constant_id = 0) const uint FRAGMENT_ROWS = 16u;
layout(constant_id = 1) const uint FRAGMENT_COLUMNS = 16u;
layout(constant_id = 2) const uint FRAGMENT_K = 16u;
// Of the scope, a subgroup or the workgroup. These are what a workgroup's tile is divided among.
layout(constant_id = 3) const uint FRAGMENT_INVOCATIONS = 32u;
#ifdef MATRICES_OF_ANY_SIZE
layout(constant_id = 4) const uint PATCH_ROWS = 16u;
const bool OF_WORKGROUP = FRAGMENT_INVOCATIONS == THREADS;
const int FRAGMENT_SCOPE = OF_WORKGROUP ? gl_ScopeWorkgroup : gl_ScopeSubgroup;
#define OWNER (OF_WORKGROUP ? 0u : SUBGROUP_ID)
#define OWNER_LANE (OF_WORKGROUP ? LOCAL_ID : SUBGROUP_LANE)
#define OWN_N (OF_WORKGROUP ? TILE_N : 32u)
#else
#define FRAGMENT_SCOPE gl_ScopeSubgroup
#define PATCH_ROWS FRAGMENT_ROWS
#define OWNER SUBGROUP_ID
#define OWNER_LANE SUBGROUP_LANE
#define OWN_N 32u
#endif

#define FRAGMENT(type, rows, columns, use) coopmat<type, FRAGMENT_SCOPE, rows, columns, gl_MatrixUse##use>
// The type may be bfloat16 in truth: as_bfloat16() in backends/vulkan/dispatch.h
#define FragmentA FRAGMENT(float16_t, FRAGMENT_ROWS, FRAGMENT_K, A)
#define FragmentB FRAGMENT(float16_t, FRAGMENT_K, FRAGMENT_COLUMNS, B)
#define FragmentSum FRAGMENT(float, FRAGMENT_ROWS, FRAGMENT_COLUMNS, Accumulator)
#define NO_SUM FragmentSum(0.0f)
#define multiply_add(a, b, sum) coopMatMulAdd(a, b, sum)
#define plus(sum, more) ((sum) + (more))

#define OperandQuad uvec2
#define SHARED_OPERANDS(name, count) shared uvec2 name[count]
#define ROW_PADDING(along_k) 2u // rows begin at multiples of 16 bytes, as matrices must
#define LOAD_FRAGMENT_A(fragment, slices, at, along_k, row)                                                  \
    coopMatLoad(fragment, slices, at, row,                                                                   \
                along_k != 0 ? gl_CooperativeMatrixLayoutRowMajor : gl_CooperativeMatrixLayoutColumnMajor);
#define LOAD_FRAGMENT_B(fragment, slices, at, along_k, row)                                                  \
    coopMatLoad(fragment, slices, at, row,                                                                   \
                along_k != 0 ? gl_CooperativeMatrixLayoutColumnMajor : gl_CooperativeMatrixLayoutRowMajor);

#if defined(OPERANDS_fp16)
#define PACK pack_fp16
#else
#define PACK pack_bf16
#endif
#ifdef OPERANDS_fp32
float finite_of(float x) { return abs(x) < 3.39e38f ? x : 0.0f; }
// What is not finite, or would not be as bf16, is the rest of 0: a first part that is infinite would make NaN
// with the other operand's rest, which often is 0.
#define KEEP_OPERANDS(slices, at, part, quad)                                                                \
    const vec4 kept = quad;                                                                                  \
    const uvec2 first = uvec2(pack_bf16(finite_of(kept.x), finite_of(kept.y)),                               \
                              pack_bf16(finite_of(kept.z), finite_of(kept.w)));                              \
    const vec4 rest = kept - vec4(as_float(first.x << 16u), as_float(first.x & 0xffff0000u),                 \
                                  as_float(first.y << 16u), as_float(first.y & 0xffff0000u));                \
    slices[at] = first;                                                                                      \
    slices[(at) + (part)] = uvec2(pack_bf16(rest.x, rest.y), pack_bf16(rest.z, rest.w));
#else
#define KEEP_OPERANDS(slices, at, part, quad)                                                                \
    const vec4 kept = quad;                                                                                  \
    slices[at] = uvec2(PACK(kept.x, kept.y), PACK(kept.z, kept.w));
#endif

// Sums become quads in an owner's patch of the slices, PATCH_ROWS of a fragment at once.
#define PATCH_ROW (FRAGMENT_COLUMNS / 2u + 2u)
#define PATCH_AT (OWNER * PATCH_ROWS * PATCH_ROW)
#define FRAGMENT_PIECES (FRAGMENT_ROWS / PATCH_ROWS)
#define FRAGMENT_QUADS (PATCH_ROWS * FRAGMENT_COLUMNS / 4u / FRAGMENT_INVOCATIONS)
#define OWN_QUAD(q) (OWNER_LANE + (q)*FRAGMENT_INVOCATIONS)
#define PIECE_ROW(q) (OWN_QUAD(q) / (FRAGMENT_COLUMNS / 4u))
#define FRAGMENT_ROW(piece, q) ((piece)*PATCH_ROWS + PIECE_ROW(q))
#define FRAGMENT_COLUMN(q) (OWN_QUAD(q) % (FRAGMENT_COLUMNS / 4u) * 4u)
#ifdef MATRICES_OF_ANY_SIZE
#define PATCHES(slices)                                                                                      \
    float keep_sum(const in uint m, const in uint n, const in float sum, const in uint piece) {              \
        if (m / PATCH_ROWS == piece)                                                                         \
            slices[PATCH_AT + m % PATCH_ROWS * PATCH_ROW + n / 2u][n % 2u] = as_uint(sum);                   \
        return sum;                                                                                          \
    }
#define KEEP_SUMS(sum, slices, piece) coopMatPerElementNV(sum, sum, keep_sum, piece);
#define WAIT_FOR_OWNER                                                                                       \
    if (OF_WORKGROUP)                                                                                        \
        barrier();                                                                                           \
    else                                                                                                     \
        subgroupBarrier();
#else
#define PATCHES(slices)
#define KEEP_SUMS(sum, slices, piece)                                                                        \
    coopMatStore(sum, slices, PATCH_AT, PATCH_ROW, gl_CooperativeMatrixLayoutRowMajor);
#define WAIT_FOR_OWNER subgroupBarrier();
#endif
#define QUADS_OF_FRAGMENT(quads, sum, slices, piece)                                                         \
    WAIT_FOR_OWNER /* for those who read the piece before */                                                 \
    KEEP_SUMS(sum, slices, piece)                                                                            \
    WAIT_FOR_OWNER                                                                                           \
    vec4 quads[FRAGMENT_QUADS];                                                                              \
    UNROLL for (uint q = 0u; q < FRAGMENT_QUADS; ++q) {                                                      \
        const uint at = PATCH_AT + PIECE_ROW(q) * PATCH_ROW + FRAGMENT_COLUMN(q) / 2u;                       \
        quads[q] = vec4(as_float(slices[at].x), as_float(slices[at].y), as_float(slices[at + 1u].x),         \
                        as_float(slices[at + 1u].y));                                                        \
    }
#define END_QUADS barrier();
