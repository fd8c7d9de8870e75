#include "kernel.h"

// An item is a channel of an input pixel. It gathers from the output pixels that saw it, in a fixed order.
KERNEL(depthwise_conv2d_backward_data, Conv2dBackwardDataParams, 256) {
    const uint channels = p.shape.in_channels;
    FOR_RANGE(i, p.shape.batch * p.shape.in_height * p.shape.in_width * channels) {
        const uint channel = i % channels;
        const uint pixel = i / channels;
        const uint padded_x = pixel % p.shape.in_width + p.shape.pad_left;
        const uint padded_y = pixel / p.shape.in_width % p.shape.in_height + p.shape.pad_top;
        const uint image = pixel / p.shape.in_width / p.shape.in_height * p.shape.out_height;
        float sum = 0.0f;
        for (uint ky = 0u; ky < p.shape.kernel_height; ++ky) {
            // Above the first window it wraps around to beyond the last
            const uint y = padded_y - ky * p.shape.dilation_y;
            const uint row = y / p.shape.stride_y;
            if (row < p.shape.out_height && row * p.shape.stride_y == y) {
                for (uint kx = 0u; kx < p.shape.kernel_width; ++kx) {
                    const uint x = padded_x - kx * p.shape.dilation_x;
                    const uint column = x / p.shape.stride_x;
                    if (column < p.shape.out_width && column * p.shape.stride_x == x)
                        sum = fma(p.dy.at[((image + row) * p.shape.out_width + column) * channels + channel],
                                  p.w.at[(ky * p.shape.kernel_width + kx) * channels + channel], sum);
                }
            }
        }
        if (p.relu != 0u) {
            if (!(p.x.at[i] > 0.0f)) sum = 0.0f;
        }
        p.dx.at[i] = sum;
    }
}
