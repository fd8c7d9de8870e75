#ifndef TOWERS_SHADERS_CONV2D_BACKWARD_WEIGHTS_PRODUCT_H
#define TOWERS_SHADERS_CONV2D_BACKWARD_WEIGHTS_PRODUCT_H

#include "conv_index.h"
#include "conv_quads.h"

// M = taps x input channels and, for a bias, one more row, K = output pixels, N = output channels, those of a
// group. The last row of A is all ones, so that its product is the bias gradient; past the end of K too,
// where B is zero.
#define A_ALONG_K 0
#define B_ALONG_K 0

// Four input channels that an output pixel sees through a tap
FUNCTION Loaded image_at(In_f32 x, ConvShape shape, Pixel pixel, Tap tap, uint first_channel, bool there) {
    const uint y = pixel.y * shape.stride_y + tap.y * shape.dilation_y - shape.pad_top;
    const uint column = pixel.x * shape.stride_x + tap.x * shape.dilation_x - shape.pad_left;
    const bool inside = both(y < shape.in_height, column < shape.in_width);
    return load_quad(x,
                     ((pixel.image * shape.in_height + y) * shape.in_width + column) * shape.in_channels +
                         first_channel + tap.channel,
                     both(there, inside));
}

#define PRODUCT(which)                                                                                       \
    const uint group = which;                                                                                \
    const uint rows = taps + p.bias;                                                                         \
    const uint depth = p.shape.batch * p.shape.out_height * p.shape.out_width;
#define BEGIN(first_m, first_n, first_k)                                                                     \
    const Tap tap = tap_of(first_m + A_ROW(0u), p.shape.kernel_width, in_group);                             \
    const bool is_tap = tap.y < p.shape.kernel_height;                                                       \
    const vec4 a_absent = vec4(tap.y == p.shape.kernel_height ? 1.0f : 0.0f, 0.0f, 0.0f, 0.0f);              \
    Pixel pixels[LOADS(TILE_M)];                                                                             \
    UNROLL for (uint i = 0u; i < LOADS(TILE_M); ++i) pixels[i] =                                             \
        pixel_of((first_k) + A_K(i), p.shape.out_height, p.shape.out_width);                                 \
    uint gradients =                                                                                         \
        ((first_k) + B_K(0u)) * p.shape.out_channels + group * out_group + first_n + B_COLUMN(0u);           \
    const bool is_column = first_n + B_COLUMN(0u) < out_group;
#define LOAD_A(i, there) image_at(p.x, p.shape, pixels[i], tap, group* in_group, both(is_tap, there))
#define LOAD_B(j, there)                                                                                     \
    load_quad(p.dy, gradients + (B_K(j) - B_K(0u)) * p.shape.out_channels, both(is_column, there))
#define ADVANCE                                                                                              \
    UNROLL for (uint i = 0u; i < LOADS(TILE_M); ++i) pixels[i] =                                             \
        pixel_after(pixels[i], step, p.shape.out_height, p.shape.out_width);                                 \
    gradients += TILE_K * p.shape.out_channels;

#define STORE(m, n, part, quad)                                                                              \
    if ((m) == taps)                                                                                         \
        out_quads(p.db).at[((part)*p.shape.out_channels + group * out_group + (n)) / 4u] = (quad);           \
    else                                                                                                     \
        out_quads(p.dw).at[(((part)*taps + (m)) * p.shape.out_channels + group * out_group + (n)) / 4u] =    \
            (quad)

#define PRODUCTS                                                                                             \
    const uint in_group = p.shape.in_channels / p.shape.groups;                                              \
    const uint out_group = p.shape.out_channels / p.shape.groups;                                            \
    const uint taps = p.shape.kernel_height * p.shape.kernel_width * in_group;                               \
    const Pixel step = pixel_of(TILE_K, p.shape.out_height, p.shape.out_width);                              \
    GEMM_SLICES(taps + p.bias, out_group, p.shape.groups, p.splits)

#endif
