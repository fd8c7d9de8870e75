#ifndef TOWERS_SHADERS_CONV2D_BACKWARD_DATA_PRODUCT_H
#define TOWERS_SHADERS_CONV2D_BACKWARD_DATA_PRODUCT_H

#include "conv_index.h"
#include "conv_phases.h"
#include "conv_quads.h"

// A product for each group and each phase of rows and columns. M = its input pixels, K = its taps x output
// channels, N = input channels, those of the group
#define A_ALONG_K 1
#define B_ALONG_K 1

// Where the output pixel lies that saw this pixel of the phases through the first tap
FUNCTION Corner corner_of(Pixel pixel, ConvShape shape, Phase phase_y, Phase phase_x, uint first_channel) {
    Corner corner;
    corner.y = pixel.y + phase_y.corner;
    corner.x = pixel.x + phase_x.corner;
    corner.at =
        ((pixel.image * shape.out_height + corner.y) * shape.out_width + corner.x) * shape.out_channels +
        first_channel;
    return corner;
}

// Further taps saw it from above and left.
FUNCTION Loaded gradient_at(In_f32 dy, ConvShape shape, Corner corner, Tap tap, uint dilation_y,
                            uint dilation_x, bool there) {
    const uint y = tap.y * dilation_y;
    const uint x = tap.x * dilation_x;
    const bool inside = both(corner.y - y < shape.out_height, corner.x - x < shape.out_width);
    return load_quad(dy, corner.at - (y * shape.out_width + x) * shape.out_channels + tap.channel,
                     both(there, inside));
}

#define PRODUCT(which)                                                                                       \
    const uint group = (which) % p.shape.groups;                                                             \
    const uint phase = (which) / p.shape.groups;                                                             \
    const Phase phase_y = phase_of(phase / phases_x, p.shape.stride_y, p.shape.dilation_y,                   \
                                   p.shape.kernel_height, p.shape.pad_top, p.shape.in_height);               \
    const Phase phase_x = phase_of(phase % phases_x, p.shape.stride_x, p.shape.dilation_x,                   \
                                   p.shape.kernel_width, p.shape.pad_left, p.shape.in_width);                \
    const uint rows = p.shape.batch * phase_y.pixels * phase_x.pixels;                                       \
    const uint depth = phase_y.taps * phase_x.taps * out_group;                                              \
    const uint across = max(phase_x.taps, 1u); /* which also a product without depth divides by */
#define BEGIN(first_m, first_n, first_k)                                                                     \
    const vec4 a_absent = vec4(0.0f);                                                                        \
    Corner corners[LOADS(TILE_M)];                                                                           \
    UNROLL for (uint i = 0u; i < LOADS(TILE_M); ++i) {                                                       \
        const uint m = first_m + A_ROW(i);                                                                   \
        corners[i] = corner_of(pixel_of(m, phase_y.pixels, phase_x.pixels), p.shape, phase_y, phase_x,       \
                               group * out_group);                                                           \
        if (m >= rows) corners[i].y = NOWHERE;                                                               \
    }                                                                                                        \
    Tap tap = tap_of((first_k) + A_K(0u), across, out_group);                                                \
    const Tap step = tap_of(TILE_K, across, out_group);                                                      \
    const uint row_apart = phase_y.taps_apart * p.shape.kernel_width;                                        \
    const uint weights = (phase_y.tap * p.shape.kernel_width + phase_x.tap) * in_group + first_n;
#define LOAD_A(i, there)                                                                                     \
    gradient_at(p.dy, p.shape, corners[i], tap, phase_y.dilation, phase_x.dilation, there)
#define LOAD_B(j, there)                                                                                     \
    load_quad(p.w,                                                                                           \
              ((tap.y * row_apart + tap.x * phase_x.taps_apart) * in_group + weights + B_COLUMN(j)) *        \
                      p.shape.out_channels +                                                                 \
                  group * out_group + tap.channel,                                                           \
              both(there, first_n + B_COLUMN(j) < in_group))
#define ADVANCE tap = tap_after(tap, step, across, out_group);

// Of the gradients where x, which ReLU made, is above 0
FUNCTION vec4 where_active(In_f32 x, uint at, uint relu, vec4 gradients) {
    if (relu == 0u) return gradients;
    const vec4 activations = in_quads(x).at[at / 4u];
    UNROLL for (uint i = 0u; i < 4u; ++i) gradients[i] = activations[i] > 0.0f ? gradients[i] : 0.0f;
    return gradients;
}

// The place among all input pixels of the m-th one of the phases
FUNCTION uint place_of(uint m, ConvShape shape, Phase phase_y, Phase phase_x) {
    if (shape.stride_y * shape.stride_x == 1u) return m; // without divisions
    const Pixel pixel = pixel_of(m, phase_y.pixels, phase_x.pixels);
    return (pixel.image * shape.in_height + phase_y.pixel + pixel.y * shape.stride_y) * shape.in_width +
           phase_x.pixel + pixel.x * shape.stride_x;
}

#define STORE(m, n, part, quad)                                                                              \
    const uint at = place_of(m, p.shape, phase_y, phase_x) * p.shape.in_channels + group * in_group + (n);   \
    out_quads(p.dx).at[((part)*pixels * p.shape.in_channels + at) / 4u] = where_active(p.x, at, relu, quad)

#define PRODUCTS                                                                                             \
    const uint in_group = p.shape.in_channels / p.shape.groups;                                              \
    const uint out_group = p.shape.out_channels / p.shape.groups;                                            \
    const uint pixels = p.shape.batch * p.shape.in_height * p.shape.in_width;                                \
    const uint relu = p.splits == 1u ? p.relu : 0u;                                                          \
    const uint phases_y = phases_of(p.shape.stride_y, p.shape.in_height);                                    \
    const uint phases_x = phases_of(p.shape.stride_x, p.shape.in_width);                                     \
    const uint most_rows = p.shape.batch *                                                                   \
                           ((p.shape.in_height + p.shape.stride_y - 1u) / p.shape.stride_y) *                \
                           ((p.shape.in_width + p.shape.stride_x - 1u) / p.shape.stride_x);                  \
    GEMM_SLICES(most_rows, in_group, phases_y* phases_x* p.shape.groups, p.splits)

#endif
