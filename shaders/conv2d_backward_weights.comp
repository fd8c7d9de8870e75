#include "kernel.h"
#include "conv_index.h"

// M = taps x input channels and one row more, K = output pixels, N = output channels.
// The last row of A is all ones, so that it sums the bias gradient.
#define Row Tap
#define Step Pixel

FUNCTION Tap row_of(ConvShape shape, uint m) { return tap_of(m, shape.kernel_width, shape.in_channels); }
FUNCTION Pixel step_of(ConvShape shape, uint k) { return pixel_of(k, shape.out_height, shape.out_width); }

FUNCTION float load_a(Conv2dBackwardWeightsParams p, Tap tap, Pixel pixel) {
    if (tap.y == p.shape.kernel_height) return 1.0f;
    return image_at(p.x, p.shape, pixel, tap);
}

FUNCTION float load_b(Conv2dBackwardWeightsParams p, Pixel pixel, uint n) {
    return p.dy.at[((pixel.image * p.shape.out_height + pixel.y) * p.shape.out_width + pixel.x) *
                       p.shape.out_channels +
                   n];
}

FUNCTION void store(Conv2dBackwardWeightsParams p, uint m, uint n, uint part, float value) {
    const uint taps = p.shape.kernel_height * p.shape.kernel_width * p.shape.in_channels;
    if (m == taps)
        p.db.at[part * p.shape.out_channels + n] = value;
    else
        p.dw.at[(part * taps + m) * p.shape.out_channels + n] = value;
}

#include "gemm_tile.h"

KERNEL(conv2d_backward_weights, Conv2dBackwardWeightsParams, 256) {
    GEMM_TILES(p, p.shape.kernel_height * p.shape.kernel_width * p.shape.in_channels + 1u, p.shape.out_channels,
               p.shape.batch * p.shape.out_height * p.shape.out_width, p.splits)
}
