#ifndef TOWERS_SHADERS_CONV_QUADS_H
#define TOWERS_SHADERS_CONV_QUADS_H

// What the convolutions by quads (gemm_quads.h) share.

// The quad whose first element has the index `at`, or zeros
FUNCTION vec4 quad_or_zero(In_f32 x, uint at, bool there) {
    const vec4 quad = in_quads(x).at[there ? at / 4u : 0u];
    return there ? quad : vec4(0.0f);
}

// Where the window of a pixel begins: its first row and column, and the index of that pixel's first element,
// all of which may lie before the image by unsigned wrap-around
struct Corner {
    uint y, x, at;
};

// A row that no image has, even a window further on
#define NOWHERE 0x80000000u

#endif
