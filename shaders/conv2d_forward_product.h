#ifndef TOWERS_SHADERS_CONV2D_FORWARD_PRODUCT_H
#define TOWERS_SHADERS_CONV2D_FORWARD_PRODUCT_H

#include "conv_index.h"
#include "conv_output.h"
#include "conv_quads.h"

// M = output pixels, K = taps x input channels, N = output channels, those of a group
#define A_ALONG_K 1
#define B_ALONG_K 0

FUNCTION Corner corner_of(Pixel pixel, ConvShape shape, uint first_channel) {
    Corner corner;
    corner.y = pixel.y * shape.stride_y - shape.pad_top;
    corner.x = pixel.x * shape.stride_x - shape.pad_left;
    corner.at = ((pixel.image * shape.in_height + corner.y) * shape.in_width + corner.x) * shape.in_channels +
                first_channel;
    return corner;
}

FUNCTION Loaded image_at(In_f32 x, ConvShape shape, Corner corner, Tap tap, bool there) {
    const uint y = tap.y * shape.dilation_y;
    const uint column = tap.x * shape.dilation_x;
    const bool inside = both(corner.y + y < shape.in_height, corner.x + column < shape.in_width);
    return load_quad(x, corner.at + (y * shape.in_width + column) * shape.in_channels + tap.channel,
                     both(there, inside));
}

#define PRODUCT(which)                                                                                       \
    const uint group = which;                                                                                \
    const uint rows = pixels;                                                                                \
    const uint depth = p.shape.kernel_height * p.shape.kernel_width * in_group;
#define BEGIN(first_m, first_n, first_k)                                                                     \
    const vec4 a_absent = vec4(0.0f);                                                                        \
    Corner corners[LOADS(TILE_M)];                                                                           \
    UNROLL for (uint i = 0u; i < LOADS(TILE_M); ++i) {                                                       \
        const uint m = first_m + A_ROW(i);                                                                   \
        corners[i] =                                                                                         \
            corner_of(pixel_of(m, p.shape.out_height, p.shape.out_width), p.shape, group * in_group);        \
        if (m >= pixels) corners[i].y = NOWHERE;                                                             \
    }                                                                                                        \
    Tap tap = tap_of((first_k) + A_K(0u), p.shape.kernel_width, in_group);                                   \
    uint weights =                                                                                           \
        ((first_k) + B_K(0u)) * p.shape.out_channels + group * out_group + first_n + B_COLUMN(0u);           \
    const bool is_column = first_n + B_COLUMN(0u) < out_group;
#define LOAD_A(i, there) image_at(p.x, p.shape, corners[i], tap, there)
#define LOAD_B(j, there)                                                                                     \
    load_quad(p.w, weights + (B_K(j) - B_K(0u)) * p.shape.out_channels, both(is_column, there))
#define ADVANCE                                                                                              \
    tap = tap_after(tap, step, p.shape.kernel_width, in_group);                                              \
    weights += TILE_K * p.shape.out_channels;

FUNCTION vec4 bias_at(In_f32 b, uint bias, uint n) {
    if (bias == 0u) return vec4(0.0f);
    return in_quads(b).at[n / 4u];
}

FUNCTION vec4 activate_quad(vec4 sum, uint relu) {
    UNROLL for (uint i = 0u; i < 4u; ++i) sum[i] = activate(sum[i], relu);
    return sum;
}

#define STORE(m, n, part, quad)                                                                              \
    out_quads(p.y).at[(((part)*pixels + (m)) * p.shape.out_channels + group * out_group + (n)) / 4u] =       \
        activate_quad((quad) + bias_at(p.b, bias, group * out_group + (n)), relu)

#define PRODUCTS                                                                                             \
    const uint in_group = p.shape.in_channels / p.shape.groups;                                              \
    const uint out_group = p.shape.out_channels / p.shape.groups;                                            \
    const uint pixels = p.shape.batch * p.shape.out_height * p.shape.out_width;                              \
    const Tap step = tap_of(TILE_K, p.shape.kernel_width, in_group);                                         \
    const uint bias = p.splits == 1u ? p.bias : 0u;                                                          \
    const uint relu = p.splits == 1u ? p.relu : 0u;                                                          \
    GEMM_SLICES(pixels, out_group, p.shape.groups, p.splits)

#endif
