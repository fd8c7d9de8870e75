#include "kernel.h"
#include "vec4.h"

// An item is four channels' weight of one tap, or after the weights their bias, in one part of the sum. It
// adds up each row of output pixels first and then the rows, so that rounding errors do not accumulate.
KERNEL(depthwise_conv2d_backward_weights, Conv2dBackwardWeightsParams, 256) {
    const uint channels = p.shape.out_channels;
    const uint quads = QUADS_OF(channels);
    const uint taps = p.shape.kernel_height * p.shape.kernel_width;
    const uint rows = p.shape.batch * p.shape.out_height;
    const uint depth = (rows + p.splits - 1u) / p.splits;
    FOR_RANGE(i, (taps + p.bias) * quads * p.splits) {
        const uint quad = i % quads;
        const uint tap = i / quads % (taps + p.bias);
        const uint part = i / quads / (taps + p.bias);
        const uint ky = tap / p.shape.kernel_width;
        const uint kx = tap % p.shape.kernel_width;
        const uint end = min((part + 1u) * depth, rows);
        vec4 sum = vec4(0.0f);
        for (uint row = part * depth; row < end; ++row) {
            vec4 row_sum = vec4(0.0f);
            const uint dy_row = row * p.shape.out_width;
            if (tap == taps) {
                for (uint column = 0u; column < p.shape.out_width; ++column)
                    row_sum += channels_at(p.dy, channels, dy_row + column, quad);
            } else {
                const uint y =
                    row % p.shape.out_height * p.shape.stride_y + ky * p.shape.dilation_y - p.shape.pad_top;
                if (y < p.shape.in_height) {
                    const uint x_row = (row / p.shape.out_height * p.shape.in_height + y) * p.shape.in_width;
                    const uint first = kx * p.shape.dilation_x - p.shape.pad_left;
                    for (uint column = 0u; column < p.shape.out_width; ++column) {
                        const uint x = column * p.shape.stride_x + first;
                        if (x < p.shape.in_width)
                            row_sum = fma(channels_at(p.x, channels, x_row + x, quad),
                                          channels_at(p.dy, channels, dy_row + column, quad), row_sum);
                    }
                }
            }
            sum += row_sum;
        }
        if (tap == taps)
            set_channels(p.db, channels, part, quad, sum);
        else
            set_channels(p.dw, channels, part * taps + tap, quad, sum);
    }
}
