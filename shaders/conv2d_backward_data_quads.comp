#include "kernel.h"
#include "conv_index.h"
#include "conv_quads.h"

// M = input pixels, K = taps x output channels, N = input channels, those of a group. The strides are 1.
#define A_ALONG_K 1
#define B_ALONG_K 1

// Where the output pixel lies that saw this input pixel through the first tap
FUNCTION Corner corner_of(Pixel pixel, ConvShape shape, uint first_channel) {
    Corner corner;
    corner.y = pixel.y + shape.pad_top;
    corner.x = pixel.x + shape.pad_left;
    corner.at =
        ((pixel.image * shape.out_height + corner.y) * shape.out_width + corner.x) * shape.out_channels +
        first_channel;
    return corner;
}

// Further taps saw it from above and left.
FUNCTION vec4 gradient_at(In_f32 dy, ConvShape shape, Corner corner, Tap tap, bool there) {
    const uint y = tap.y * shape.dilation_y;
    const uint x = tap.x * shape.dilation_x;
    return quad_or_zero(dy, corner.at - (y * shape.out_width + x) * shape.out_channels + tap.channel,
                        there && corner.y - y < shape.out_height && corner.x - x < shape.out_width);
}

#define BEGIN(first_m, first_n, first_k)                                                                     \
    Corner corners[LOADS(TILE_M)];                                                                           \
    UNROLL for (uint i = 0u; i < LOADS(TILE_M); ++i) {                                                       \
        const uint m = first_m + A_ROW(i);                                                                   \
        corners[i] =                                                                                         \
            corner_of(pixel_of(m, p.shape.in_height, p.shape.in_width), p.shape, group * out_group);         \
        if (m >= pixels) corners[i].y = NOWHERE;                                                             \
    }                                                                                                        \
    Tap tap = tap_of((first_k) + A_K(0u), p.shape.kernel_width, out_group);
#define LOAD_A(i, there) gradient_at(p.dy, p.shape, corners[i], tap, there)
#define LOAD_B(j, there)                                                                                     \
    quad_or_zero(p.w,                                                                                        \
                 ((tap.y * p.shape.kernel_width + tap.x) * in_group + first_n + B_COLUMN(j)) *               \
                         p.shape.out_channels +                                                              \
                     group * out_group + tap.channel,                                                        \
                 there && first_n + B_COLUMN(j) < in_group)
#define ADVANCE tap = tap_after(tap, step, p.shape.kernel_width, out_group);

// Of the gradients where x, which ReLU made, is above 0
FUNCTION vec4 where_active(In_f32 x, uint at, uint relu, vec4 gradients) {
    if (relu == 0u) return gradients;
    const vec4 activations = in_quads(x).at[at / 4u];
    UNROLL for (uint i = 0u; i < 4u; ++i) gradients[i] = activations[i] > 0.0f ? gradients[i] : 0.0f;
    return gradients;
}

#define AT(m, n) ((m)*p.shape.in_channels + group * in_group + (n))
#define STORE(m, n, part, quad)                                                                              \
    out_quads(p.dx).at[((part)*pixels * p.shape.in_channels + AT(m, n)) / 4u] =                              \
        where_active(p.x, AT(m, n), relu, quad)

#include "gemm_quads.h"

KERNEL_OF_TUNABLE_SIZE(conv2d_backward_data_quads, Conv2dBackwardDataParams, 2, THREADS) {
    const uint in_group = p.shape.in_channels / p.shape.groups;
    const uint out_group = p.shape.out_channels / p.shape.groups;
    const uint pixels = p.shape.batch * p.shape.in_height * p.shape.in_width;
    const Tap step = tap_of(TILE_K, p.shape.kernel_width, out_group);
    const uint relu = p.splits == 1u ? p.relu : 0u;
    GEMM_QUADS(pixels, in_group, p.shape.kernel_height * p.shape.kernel_width * out_group, p.shape.groups,
               p.splits)
}
