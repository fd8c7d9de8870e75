#include "kernel.h"
#include "conv_index.h"

// M = taps x input channels and, for a bias, one more row, K = output pixels, N = output channels, those of a
// group. The last row of A is all ones, so that its product is the bias gradient.
#define Row Tap
#define Step Pixel
#define ROW_OF(m) tap_of(m, p.shape.kernel_width, in_group)
#define STEP_OF(k) pixel_of(k, p.shape.out_height, p.shape.out_width)
#define LOAD_A(row, step) image_or_one(p.x, p.shape, row, step, group * in_group)
#define LOAD_B(k, step, n) p.dy.at[(k) * p.shape.out_channels + group * out_group + (n)]

FUNCTION float image_or_one(In_f32 x, ConvShape shape, Tap tap, Pixel pixel, uint first_channel) {
    if (tap.y == shape.kernel_height) return 1.0f;
    return image_at(x, shape, pixel, tap, first_channel);
}

#define STORE(m, n, part, value)                                                                             \
    if ((m) == taps)                                                                                         \
        p.db.at[(part) * p.shape.out_channels + group * out_group + (n)] = (value);                          \
    else                                                                                                     \
        p.dw.at[((part) * taps + (m)) * p.shape.out_channels + group * out_group + (n)] = (value)

#include "gemm_tile.h"

KERNEL(conv2d_backward_weights, Conv2dBackwardWeightsParams, 256) {
    const uint in_group = p.shape.in_channels / p.shape.groups;
    const uint out_group = p.shape.out_channels / p.shape.groups;
    const uint taps = p.shape.kernel_height * p.shape.kernel_width * in_group;
    GEMM_TILES(taps + p.bias, out_group, p.shape.batch * p.shape.out_height * p.shape.out_width, p.shape.groups,
               p.splits)
}
