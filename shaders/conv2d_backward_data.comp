#include "kernel.h"
#include "conv_index.h"

// M = input pixels, K = taps x output channels, N = input channels
#define Row Pixel
#define Step Tap

FUNCTION Pixel row_of(ConvShape shape, uint m) { return pixel_of(m, shape.in_height, shape.in_width); }
FUNCTION Tap step_of(ConvShape shape, uint k) { return tap_of(k, shape.kernel_width, shape.out_channels); }

FUNCTION float load_a(In_f32 dy, ConvShape shape, Pixel pixel, Tap tap) {
    // The output pixel that saw this input pixel through this tap, if there is one
    const uint y = pixel.y + shape.pad_top - tap.y;
    const uint x = pixel.x + shape.pad_left - tap.x;
    const uint row = y / shape.stride;
    const uint column = x / shape.stride;
    if (row >= shape.out_height || column >= shape.out_width || row * shape.stride != y ||
        column * shape.stride != x)
        return 0.0f;
    return dy.at[((pixel.image * shape.out_height + row) * shape.out_width + column) * shape.out_channels +
                 tap.channel];
}

FUNCTION float load_b(In_f32 w, ConvShape shape, Tap tap, uint n) {
    return w.at[((tap.y * shape.kernel_width + tap.x) * shape.in_channels + n) * shape.out_channels +
                tap.channel];
}

#define STORE(m, n, part, value)                                                                             \
    p.dx.at[(m) * p.shape.in_channels + (n)] =                                                               \
        p.relu == 0u || p.x.at[(m) * p.shape.in_channels + (n)] > 0.0f ? (value) : 0.0f

#include "gemm_tile.h"

KERNEL(conv2d_backward_data, Conv2dBackwardDataParams, 256) {
    GEMM_TILES(p.shape, p.dy, p.w, p.shape.batch * p.shape.in_height * p.shape.in_width, p.shape.in_channels,
               p.shape.kernel_height * p.shape.kernel_width * p.shape.out_channels, 1u)
}
