#ifndef TOWERS_SHADERS_CONV_QUADS_H
#define TOWERS_SHADERS_CONV_QUADS_H

// What the convolutions by quads (gemm_quads.h) share.

// `a && b` without the branch that glslang makes around a second operand that is an expression. Where drivers
// keep such a branch, the loads before it and after it wait for each other.
FUNCTION bool both(bool a, bool b) { return a && b; }

// A quad on its way from memory; what it holds counts only if it is there.
struct Loaded {
    vec4 quad;
    bool there;
};

// The quad whose first element has the index `at`
FUNCTION Loaded load_quad(In_f32 x, uint at, bool there) {
    const uint place = at / 4u;
    Loaded loaded;
    loaded.quad = in_quads(x).at[there ? place : 0u];
    loaded.there = there;
    return loaded;
}

// Where the window of a pixel begins: its first row and column, and the index of that pixel's first element,
// all of which may lie before the image by unsigned wrap-around
struct Corner {
    uint y, x, at;
};

// A row that no image has, even a window further on
#define NOWHERE 0x80000000u

#endif
