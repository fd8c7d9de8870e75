// Fragments (shaders/gemm_fragments.h) for CUDA: a lane's words of them.
#include "matrix_units.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#undef LAUNCH_BOUNDS // two instructions for one take registers, of which nvcc would spill some
#define LAUNCH_BOUNDS(size) size
#endif

struct Fragment {
    uint words[4];
};
using FragmentA = Fragment;
using FragmentB = Fragment; // of columns 0 to 7, then of 8 to 15
struct FragmentSum {
    float halves[2][4]; // likewise
};
#define NO_SUM (FragmentSum{{{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}}})

FUNCTION FragmentSum plus(FragmentSum sum, const FragmentSum& more) {
    UNROLL for (uint h = 0u; h < 2u; ++h) UNROLL for (uint i = 0u; i < 4u; ++i) sum.halves[h][i] +=
        more.halves[h][i];
    return sum;
}

#ifdef OPERANDS_tf32
#define FRAGMENT_K 8u
using OperandQuad = uvec4;
#else
#define FRAGMENT_K 16u
using OperandQuad = uvec2;
#endif
#define FRAGMENT_INVOCATIONS 32u
#define FRAGMENT_ROWS 16u
#define FRAGMENT_COLUMNS 16u
#define OWNER SUBGROUP_ID
#define OWN_N 32u
#define SHARED_OPERANDS(name, count) alignas(16) __shared__ Shared<OperandQuad, count> name

FUNCTION FragmentSum multiply_add(const FragmentA& a, const FragmentB& b, FragmentSum sum) {
#if defined(OPERANDS_tf32)
#define MULTIPLY_ADD multiply_add_tf32
#elif defined(OPERANDS_fp16)
#define MULTIPLY_ADD multiply_add_fp16
#else
#define MULTIPLY_ADD multiply_add_bf16
#endif
    UNROLL for (uint h = 0u; h < 2u; ++h)
        MULTIPLY_ADD(sum.halves[h], a.words, b.words[2u * h], b.words[2u * h + 1u]);
    return sum;
}

#if defined(OPERANDS_tf32)
// By integers, since cvt.rna rounds ties away from 0. A NaN stays one whatever its bits.
FUNCTION uint round_to_tf32(float x) {
    const uint bits = as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return bits | 0x00400000u;
    return (bits + 0xfffu + (bits >> 13u & 1u)) & ~0x1fffu;
}
#define KEEP_OPERANDS(slices, at, part, quad)                                                                \
    const vec4 kept = quad;                                                                                  \
    slices[at] = uvec4(round_to_tf32(kept[0]), round_to_tf32(kept[1]), round_to_tf32(kept[2]),               \
                       round_to_tf32(kept[3]));
#elif defined(OPERANDS_fp32)
FUNCTION float bf16_of(uint both, uint half) {
    return as_float(half == 0u ? both << 16u : both & 0xffff0000u);
}
// What is not finite, or would not be as bf16, is the rest of 0: a first part that is infinite would make NaN
// with the other operand's rest, which often is 0.
#define KEEP_OPERANDS(slices, at, part, quad)                                                                \
    vec4 kept = quad;                                                                                        \
    uvec2 rounded;                                                                                           \
    UNROLL for (uint h = 0u; h < 2u; ++h) {                                                                  \
        float finite[2];                                                                                     \
        UNROLL for (uint c = 0u; c < 2u; ++c) finite[c] =                                                    \
            fabsf(kept[h * 2u + c]) < 3.39e38f ? kept[h * 2u + c] : 0.0f;                                    \
        rounded[h] = pack_bf16(finite[0], finite[1]);                                                        \
        UNROLL for (uint c = 0u; c < 2u; ++c) kept[h * 2u + c] -= bf16_of(rounded[h], c);                    \
    }                                                                                                        \
    slices[at] = rounded;                                                                                    \
    slices[(at) + (part)] = uvec2(pack_bf16(kept[0], kept[1]), pack_bf16(kept[2], kept[3]));
#else
#ifdef OPERANDS_fp16
#define PACK pack_fp16
#else
#define PACK pack_bf16
#endif
#define KEEP_OPERANDS(slices, at, part, quad)                                                                \
    const vec4 kept = quad;                                                                                  \
    slices[at] = uvec2(PACK(kept[0], kept[1]), PACK(kept[2], kept[3]));
#endif

// A fragment is four matrices of 8 rows of 16 bytes, those of A along k side by side after one below the
// other; B's along k, whose columns are rows of memory, are in the other order.
#define LANE_ROW (SUBGROUP_LANE % 8u)
#define LANE_FIRST (SUBGROUP_LANE / 8u % 2u)
#define LANE_SECOND (SUBGROUP_LANE / 16u)
#define BYTES_16 (16u / uint(sizeof(OperandQuad)))
template<bool one_below_the_other, bool transposed, class Slices>
FUNCTION void load_fragment(Fragment& fragment, const Slices& slices, uint at, uint row) {
    const uint down = one_below_the_other ? LANE_FIRST : LANE_SECOND;
    const uint across = one_below_the_other ? LANE_SECOND : LANE_FIRST;
    const void* const from = slices.elements + at + (LANE_ROW + down * 8u) * row + across * BYTES_16;
    if (transposed)
        load_transposed_matrices(fragment.words, from);
    else
        load_matrices(fragment.words, from);
}
#ifdef OPERANDS_tf32
// No instruction transposes matrices of words.
#define ROW_PADDING(along_k) (along_k != 0 ? 1u : 2u)
template<bool is_a, class Slices>
FUNCTION void load_words(Fragment& fragment, const Slices& slices, uint at, uint row) {
    const uint g = SUBGROUP_LANE / 4u, t = SUBGROUP_LANE % 4u;
    UNROLL for (uint i = 0u; i < 4u; ++i) {
        const uint k = t + (is_a ? i / 2u : i % 2u) * 4u;
        const uint place = g + (is_a ? i % 2u : i / 2u) * 8u;
        fragment.words[i] = load_word(&slices.elements[at + k * row + place / 4u].x + place % 4u);
    }
}
#define LOAD_FRAGMENT(is_a, fragment, slices, at, along_k, row)                                              \
    if (along_k != 0)                                                                                        \
        load_fragment<is_a, false>(fragment, slices, at, row);                                               \
    else                                                                                                     \
        load_words<is_a>(fragment, slices, at, row);
#else
#define ROW_PADDING(along_k) 2u
#define LOAD_FRAGMENT(is_a, fragment, slices, at, along_k, row)                                              \
    load_fragment<is_a == (along_k != 0), along_k == 0>(fragment, slices, at, row);
#endif
#define LOAD_FRAGMENT_A(fragment, slices, at, along_k, row)                                                  \
    LOAD_FRAGMENT(true, fragment, slices, at, along_k, row)
#define LOAD_FRAGMENT_B(fragment, slices, at, along_k, row)                                                  \
    LOAD_FRAGMENT(false, fragment, slices, at, along_k, row)

// Neighbours have halves of two quads: the one with an even number gets the first row's, the other one the
// second's.
#define FRAGMENT_QUADS 2u
#define PATCHES(slices)
#define FRAGMENT_PIECES 1u
#define END_QUADS
#define FRAGMENT_ROW(piece, q) (SUBGROUP_LANE / 4u + SUBGROUP_LANE % 2u * 8u)
#define FRAGMENT_COLUMN(q) ((q)*8u + SUBGROUP_LANE % 4u / 2u * 4u)
FUNCTION vec4 quad_of(const float (&half)[4]) {
    const bool even = SUBGROUP_LANE % 2u == 0u;
    const float first = __shfl_xor_sync(0xffffffffu, even ? half[2] : half[0], 1u);
    const float second = __shfl_xor_sync(0xffffffffu, even ? half[3] : half[1], 1u);
    return even ? vec4(half[0], half[1], first, second) : vec4(first, second, half[2], half[3]);
}
#define QUADS_OF_FRAGMENT(quads, sum, slices, piece)                                                         \
    const FragmentSum whole = sum;                                                                           \
    const vec4 quads[FRAGMENT_QUADS] = {quad_of(whole.halves[0]), quad_of(whole.halves[1])};
