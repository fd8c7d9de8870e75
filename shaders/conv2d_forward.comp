#include "kernel.h"
#include "conv_index.h"
#include "conv_output.h"

// M = output pixels, K = taps x input channels, N = output channels, those of a group
#define Row Pixel
#define Step Tap
#define ROW_OF(m) pixel_of(m, p.shape.out_height, p.shape.out_width)
#define STEP_OF(k) tap_of(k, p.shape.kernel_width, in_group)
#define LOAD_A(row, step) image_at(p.x, p.shape, row, step, group * in_group)
#define LOAD_B(k, step, n) p.w.at[(k) * p.shape.out_channels + group * out_group + (n)]

FUNCTION float bias_at(In_f32 b, uint bias, uint n) {
    if (bias == 0u) return 0.0f;
    return b.at[n];
}

#define STORE(m, n, part, value)                                                                             \
    p.y.at[((part)*pixels + (m)) * p.shape.out_channels + group * out_group + (n)] =                         \
        activate((value) + bias_at(p.b, bias, group * out_group + (n)), relu)

#include "gemm_tile.h"

KERNEL(conv2d_forward, Conv2dForwardParams, 256) {
    const uint in_group = p.shape.in_channels / p.shape.groups;
    const uint out_group = p.shape.out_channels / p.shape.groups;
    const uint pixels = p.shape.batch * p.shape.out_height * p.shape.out_width;
    const uint bias = p.splits == 1u ? p.bias : 0u;
    const uint relu = p.splits == 1u ? p.relu : 0u;
    GEMM_TILES(pixels, out_group, p.shape.kernel_height * p.shape.kernel_width * in_group, p.shape.groups,
               p.splits)
}
