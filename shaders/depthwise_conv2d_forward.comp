#include "kernel.h"
#include "vec4.h"

// An item is four channels of an output pixel.
KERNEL(depthwise_conv2d_forward, Conv2dForwardParams, 256) {
    const uint channels = p.shape.out_channels;
    const uint quads = QUADS_OF(channels);
    FOR_RANGE(i, OUT_PIXELS(p.shape) * quads) {
        const uint quad = i % quads;
        const uint pixel = i / quads;
        // By unsigned wrap-around, places above and left of the image compare as beyond its end.
        const uint first_x = pixel % p.shape.out_width * p.shape.stride_x - p.shape.pad_left;
        const uint first_y =
            pixel / p.shape.out_width % p.shape.out_height * p.shape.stride_y - p.shape.pad_top;
        const uint image = pixel / p.shape.out_width / p.shape.out_height * p.shape.in_height;
        vec4 sum = vec4(0.0f);
        for (uint ky = 0u; ky < p.shape.kernel_height; ++ky) {
            const uint y = first_y + ky * p.shape.dilation_y;
            if (y < p.shape.in_height) {
                for (uint kx = 0u; kx < p.shape.kernel_width; ++kx) {
                    const uint x = first_x + kx * p.shape.dilation_x;
                    if (x < p.shape.in_width)
                        sum = fma(channels_at(p.x, channels, (image + y) * p.shape.in_width + x, quad),
                                  channels_at(p.w, channels, ky * p.shape.kernel_width + kx, quad), sum);
                }
            }
        }
        if (p.bias != 0u) sum += channels_at(p.b, channels, 0u, quad);
        if (p.relu != 0u) sum = relu_of(sum);
        set_channels(p.y, channels, pixel, quad, sum);
    }
}
