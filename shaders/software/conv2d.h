// Convolutions for Vulkan drivers that run on a CPU: what the three kernels share.
//
// Their matrix product keeps its tile in registers and no shared memory. A subgroup is a workgroup; it computes
// TILE_ROWS rows of 4 columns a lane, in chunks of CHUNK steps of the sum. What makes this fast on llvmpipe (27-30
// GFLOP/s on two cores, against 2.9 with a tile in shared memory): a load through a buffer address is a loop over the
// lanes, whatever they ask for, so each lane must fetch something else; subgroupShuffle by a constant costs next to
// nothing, while subgroupBroadcast searches the lanes; all loops over the tile are written out, and the innermost has
// no branch.
//
// TILE_ROWS is 32; where subgroups have fewer than eight lanes (SwiftShader, which takes minutes to compile such a
// tile) it is 8.
#define TOWERS_GLSL
#include "kernel.h"
#extension GL_KHR_shader_subgroup_shuffle : require

// The same parameters for all three; `b_wide` is B's address again, since SwiftShader crashes on a cast between
// pointers. Filled in by backends/vulkan/software_conv2d.cpp.
struct SoftwareConvParams {
    In_f32 a, b, extra; // extra: the bias going forward, x going backward to the data; never null
    In_f32x4 b_wide;
    Out_f32 c, bias_gradient;
    ConvShape shape;
    uint relu, bias, splits;
};

layout(local_size_x_id = 0) in;                     // the subgroup size
layout(constant_id = 1) const bool TAPS = false;    // a chunk (for weights: a tile's rows) never straddles two taps
layout(constant_id = 2) const bool QUADS = false;   // B's rows are whole vec4s
layout(push_constant) uniform Block { SoftwareConvParams p; };

#if TILE_ROWS == 8
#define CHUNK 4
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define STEPS(X) X(0) X(1) X(2) X(3)
#define MACS(r, value) MAC(r, value, 0) MAC(r, value, 1) MAC(r, value, 2) MAC(r, value, 3)
#else
#define CHUNK 8
#define ROWS(X)                                                                                                \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18)    \
    X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define STEPS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define MACS(r, value)                                                                                         \
    MAC(r, value, 0) MAC(r, value, 1) MAC(r, value, 2) MAC(r, value, 3)                                        \
    MAC(r, value, 4) MAC(r, value, 5) MAC(r, value, 6) MAC(r, value, 7)
#endif

// One multiply-add: row r's value of step s, which lane s holds, with the lane's own four columns of that step
#define MAC(r, value, s) sum##r = fma(vec4(subgroupShuffle(value, uint(s))), b##s, sum##r);

// The lane's four columns of row `row` of B, `columns` wide; c0..c3 are the columns, clamped to the last
#define FETCH(row, target)                                                                                     \
    if (QUADS) {                                                                                               \
        target = p.b_wide.at[(row) * (columns / 4) + min(column / 4, columns / 4 - 1)];                        \
    } else {                                                                                                   \
        const int first = (row) * columns;                                                                     \
        target = vec4(p.b.at[first + c0], p.b.at[first + c1], p.b.at[first + c2], p.b.at[first + c3]);         \
    }

// A place that no image has: rows and lanes beyond the end count as padding.
#define NOWHERE 0x3fffffff
