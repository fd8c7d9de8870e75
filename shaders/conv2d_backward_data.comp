#include "kernel.h"
#include "conv_index.h"

// M = input pixels, K = taps x output channels, N = input channels
#define Row Pixel
#define Step Tap

FUNCTION Pixel row_of(ConvShape shape, uint m) { return pixel_of(m, shape.in_height, shape.in_width); }
FUNCTION Tap step_of(ConvShape shape, uint k) { return tap_of(k, shape.kernel_width, shape.out_channels); }

FUNCTION float load_a(Conv2dBackwardDataParams p, Pixel pixel, Tap tap) {
    // The output pixel that saw this input pixel through this tap, if there is one
    const uint y = pixel.y + p.shape.pad_top - tap.y;
    const uint x = pixel.x + p.shape.pad_left - tap.x;
    const uint row = y / p.shape.stride;
    const uint column = x / p.shape.stride;
    if (row >= p.shape.out_height || column >= p.shape.out_width || row * p.shape.stride != y ||
        column * p.shape.stride != x)
        return 0.0f;
    return p.dy.at[((pixel.image * p.shape.out_height + row) * p.shape.out_width + column) *
                       p.shape.out_channels +
                   tap.channel];
}

FUNCTION float load_b(Conv2dBackwardDataParams p, Tap tap, uint n) {
    return p.w.at[((tap.y * p.shape.kernel_width + tap.x) * p.shape.in_channels + n) * p.shape.out_channels +
                  tap.channel];
}

FUNCTION void store(Conv2dBackwardDataParams p, uint m, uint n, uint part, float value) {
    const uint at = m * p.shape.in_channels + n;
    p.dx.at[at] = p.relu == 0u ? value : p.x.at[at] > 0.0f ? value : 0.0f;
}

#include "gemm_tile.h"

KERNEL(conv2d_backward_data, Conv2dBackwardDataParams, 256) {
    GEMM_TILES(p, p.shape.batch * p.shape.in_height * p.shape.in_width, p.shape.in_channels,
               p.shape.kernel_height * p.shape.kernel_width * p.shape.out_channels, 1u)
}
