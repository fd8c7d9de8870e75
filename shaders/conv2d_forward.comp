#include "kernel.h"
#include "conv_index.h"

// M = output pixels, K = taps x input channels, N = output channels
#define Row Pixel
#define Step Tap

FUNCTION Pixel row_of(ConvShape shape, uint m) { return pixel_of(m, shape.out_height, shape.out_width); }
FUNCTION Tap step_of(ConvShape shape, uint k) { return tap_of(k, shape.kernel_width, shape.in_channels); }

FUNCTION float load_a(Conv2dForwardParams p, Pixel pixel, Tap tap) {
    return image_at(p.x, p.shape, pixel, tap);
}

FUNCTION float load_b(Conv2dForwardParams p, Tap tap, uint n) {
    return p.w.at[((tap.y * p.shape.kernel_width + tap.x) * p.shape.in_channels + tap.channel) *
                      p.shape.out_channels +
                  n];
}

FUNCTION void store(Conv2dForwardParams p, uint m, uint n, uint part, float value) {
    const float sum = value + p.b.at[n];
    // Written so that a NaN stays one: divergence must show.
    p.y.at[m * p.shape.out_channels + n] = p.relu != 0u && sum < 0.0f ? 0.0f : sum;
}

#include "gemm_tile.h"

KERNEL(conv2d_forward, Conv2dForwardParams, 256) {
    GEMM_TILES(p, p.shape.batch * p.shape.out_height * p.shape.out_width, p.shape.out_channels,
               p.shape.kernel_height * p.shape.kernel_width * p.shape.in_channels, 1u)
}
