#include "kernel.h"
#include "conv_index.h"

// M = input pixels, K = taps x output channels, N = input channels, those of a group
#define Row Pixel
#define Step Tap
#define ROW_OF(m) pixel_of(m, p.shape.in_height, p.shape.in_width)
#define STEP_OF(k) tap_of(k, p.shape.kernel_width, out_group)
#define LOAD_A(row, step) gradient_at(p.dy, p.shape, row, step, group * out_group)
#define LOAD_B(k, step, n)                                                                                   \
    p.w.at[((step.y * p.shape.kernel_width + step.x) * in_group + (n)) * p.shape.out_channels +              \
           group * out_group + step.channel]

// For the output pixel that saw this input pixel through this tap, if there is one
FUNCTION float gradient_at(In_f32 dy, ConvShape shape, Pixel pixel, Tap tap, uint first_channel) {
    const uint y = pixel.y + shape.pad_top - tap.y * shape.dilation_y;
    const uint x = pixel.x + shape.pad_left - tap.x * shape.dilation_x;
    const uint row = y / shape.stride_y;
    const uint column = x / shape.stride_x;
    if (row >= shape.out_height || column >= shape.out_width || row * shape.stride_y != y ||
        column * shape.stride_x != x)
        return 0.0f;
    return dy.at[((pixel.image * shape.out_height + row) * shape.out_width + column) * shape.out_channels +
                 first_channel + tap.channel];
}

#define STORE(m, n, part, value)                                                                             \
    p.dx.at[((part)*pixels + (m)) * p.shape.in_channels + group * in_group + (n)] =                          \
        relu == 0u || p.x.at[(m) * p.shape.in_channels + group * in_group + (n)] > 0.0f ? (value) : 0.0f

#include "gemm_tile.h"

KERNEL(conv2d_backward_data, Conv2dBackwardDataParams, 256) {
    const uint in_group = p.shape.in_channels / p.shape.groups;
    const uint out_group = p.shape.out_channels / p.shape.groups;
    const uint pixels = p.shape.batch * p.shape.in_height * p.shape.in_width;
    const uint relu = p.splits == 1u ? p.relu : 0u;
    GEMM_TILES(pixels, in_group, p.shape.kernel_height * p.shape.kernel_width * out_group, p.shape.groups,
               p.splits)
}
