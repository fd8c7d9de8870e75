#include "kernel.h"

// An item is a channel of an output pixel.
KERNEL(depthwise_conv2d_forward, Conv2dForwardParams, 256) {
    const uint channels = p.shape.out_channels;
    FOR_RANGE(i, p.shape.batch * p.shape.out_height * p.shape.out_width * channels) {
        const uint channel = i % channels;
        const uint pixel = i / channels;
        // By unsigned wrap-around, places above and left of the image compare as beyond its end.
        const uint first_x = pixel % p.shape.out_width * p.shape.stride_x - p.shape.pad_left;
        const uint first_y = pixel / p.shape.out_width % p.shape.out_height * p.shape.stride_y - p.shape.pad_top;
        const uint image = pixel / p.shape.out_width / p.shape.out_height * p.shape.in_height;
        float sum = 0.0f;
        for (uint ky = 0u; ky < p.shape.kernel_height; ++ky) {
            const uint y = first_y + ky * p.shape.dilation_y;
            if (y < p.shape.in_height) {
                for (uint kx = 0u; kx < p.shape.kernel_width; ++kx) {
                    const uint x = first_x + kx * p.shape.dilation_x;
                    if (x < p.shape.in_width)
                        sum = fma(p.x.at[((image + y) * p.shape.in_width + x) * channels + channel],
                                  p.w.at[(ky * p.shape.kernel_width + kx) * channels + channel], sum);
                }
            }
        }
        if (p.bias != 0u) sum += p.b.at[channel];
        p.y.at[i] = p.relu != 0u && sum < 0.0f ? 0.0f : sum; // a NaN stays one
    }
}
