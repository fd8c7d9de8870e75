#include "kernel.h"
#include "conv_index.h"

// M = output pixels, K = taps x input channels, N = output channels
#define Row Pixel
#define Step Tap

FUNCTION Pixel row_of(ConvShape shape, uint m) { return pixel_of(m, shape.out_height, shape.out_width); }
FUNCTION Tap step_of(ConvShape shape, uint k) { return tap_of(k, shape.kernel_width, shape.in_channels); }

FUNCTION float load_a(In_f32 x, ConvShape shape, Pixel pixel, Tap tap) {
    return image_at(x, shape, pixel, tap);
}

FUNCTION float load_b(In_f32 w, ConvShape shape, Tap tap, uint n) {
    return w.at[((tap.y * shape.kernel_width + tap.x) * shape.in_channels + tap.channel) * shape.out_channels +
                n];
}

FUNCTION float activate(float sum, uint relu) {
    // Written so that a NaN stays one: divergence must show.
    return relu != 0u && sum < 0.0f ? 0.0f : sum;
}

#define STORE(m, n, part, value)                                                                             \
    p.y.at[(m) * p.shape.out_channels + (n)] = activate((value) + p.b.at[n], p.relu)

#include "gemm_tile.h"

KERNEL(conv2d_forward, Conv2dForwardParams, 256) {
    GEMM_TILES(p.shape, p.x, p.w, p.shape.batch * p.shape.out_height * p.shape.out_width, p.shape.out_channels,
               p.shape.kernel_height * p.shape.kernel_width * p.shape.in_channels, 1u)
}
