#include "kernel.h"
#include "conv_index.h"

// M = taps x input channels and one more row, K = output pixels, N = output channels.
// The last row of A is all ones, so that it sums the bias gradient.
#define Row Tap
#define Step Pixel

FUNCTION Tap row_of(ConvShape shape, uint m) { return tap_of(m, shape.kernel_width, shape.in_channels); }
FUNCTION Pixel step_of(ConvShape shape, uint k) { return pixel_of(k, shape.out_height, shape.out_width); }

FUNCTION float load_a(In_f32 x, ConvShape shape, Tap tap, Pixel pixel) {
    if (tap.y == shape.kernel_height) return 1.0f;
    return image_at(x, shape, pixel, tap);
}

FUNCTION float load_b(In_f32 dy, ConvShape shape, Pixel pixel, uint n) {
    return dy.at[((pixel.image * shape.out_height + pixel.y) * shape.out_width + pixel.x) * shape.out_channels +
                 n];
}

#define STORE(m, n, part, value)                                                                             \
    if ((m) == taps)                                                                                         \
        p.db.at[(part) * p.shape.out_channels + (n)] = (value);                                              \
    else                                                                                                     \
        p.dw.at[((part) * taps + (m)) * p.shape.out_channels + (n)] = (value)

#include "gemm_tile.h"

KERNEL(conv2d_backward_weights, Conv2dBackwardWeightsParams, 256) {
    const uint taps = p.shape.kernel_height * p.shape.kernel_width * p.shape.in_channels;
    GEMM_TILES(p.shape, p.x, p.dy, taps + 1u, p.shape.out_channels,
               p.shape.batch * p.shape.out_height * p.shape.out_width, p.splits)
}
