#include "kernel.h"
#include "vec4.h"

// An item is four channels of an input pixel. It gathers from the output pixels that saw it, in a fixed
// order.
KERNEL(depthwise_conv2d_backward_data, Conv2dBackwardDataParams, 256) {
    const uint channels = p.shape.in_channels;
    const uint quads = QUADS_OF(channels);
    FOR_RANGE(i, IN_PIXELS(p.shape) * quads) {
        const uint quad = i % quads;
        const uint pixel = i / quads;
        const uint padded_x = pixel % p.shape.in_width + p.shape.pad_left;
        const uint padded_y = pixel / p.shape.in_width % p.shape.in_height + p.shape.pad_top;
        const uint image = pixel / p.shape.in_width / p.shape.in_height * p.shape.out_height;
        vec4 sum = vec4(0.0f);
        for (uint ky = 0u; ky < p.shape.kernel_height; ++ky) {
            // Above the first window it wraps around to beyond the last
            const uint y = padded_y - ky * p.shape.dilation_y;
            const uint row = y / p.shape.stride_y;
            if (row < p.shape.out_height && row * p.shape.stride_y == y) {
                for (uint kx = 0u; kx < p.shape.kernel_width; ++kx) {
                    const uint x = padded_x - kx * p.shape.dilation_x;
                    const uint column = x / p.shape.stride_x;
                    if (column < p.shape.out_width && column * p.shape.stride_x == x)
                        sum =
                            fma(channels_at(p.dy, channels, (image + row) * p.shape.out_width + column, quad),
                                channels_at(p.w, channels, ky * p.shape.kernel_width + kx, quad), sum);
                }
            }
        }
        if (p.relu != 0u) sum = where_positive(channels_at(p.x, channels, pixel, quad), sum);
        set_channels(p.dx, channels, pixel, quad, sum);
    }
}
