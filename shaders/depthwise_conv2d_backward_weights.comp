#include "kernel.h"

// An item is a channel's weight, or after the weights its bias, in one part of the sum. It adds up each row
// of output pixels first and then the rows, so that rounding errors do not accumulate.
KERNEL(depthwise_conv2d_backward_weights, Conv2dBackwardWeightsParams, 256) {
    const uint channels = p.shape.out_channels;
    const uint weights = p.shape.kernel_height * p.shape.kernel_width * channels;
    const uint items = weights + p.bias * channels;
    const uint rows = p.shape.batch * p.shape.out_height;
    const uint depth = (rows + p.splits - 1u) / p.splits;
    FOR_RANGE(i, items * p.splits) {
        const uint part = i / items;
        const uint item = i % items;
        const uint channel = item % channels;
        const uint kx = item / channels % p.shape.kernel_width;
        const uint ky = item / channels / p.shape.kernel_width;
        const uint end = min((part + 1u) * depth, rows);
        float sum = 0.0f;
        for (uint row = part * depth; row < end; ++row) {
            float row_sum = 0.0f;
            const uint dy_row = row * p.shape.out_width;
            if (item >= weights) {
                for (uint column = 0u; column < p.shape.out_width; ++column)
                    row_sum += p.dy.at[(dy_row + column) * channels + channel];
            } else {
                const uint y = row % p.shape.out_height * p.shape.stride_y + ky * p.shape.dilation_y - p.shape.pad_top;
                if (y < p.shape.in_height) {
                    const uint x_row = (row / p.shape.out_height * p.shape.in_height + y) * p.shape.in_width;
                    const uint first = kx * p.shape.dilation_x - p.shape.pad_left;
                    for (uint column = 0u; column < p.shape.out_width; ++column) {
                        const uint x = column * p.shape.stride_x + first;
                        if (x < p.shape.in_width)
                            row_sum = fma(p.x.at[(x_row + x) * channels + channel],
                                          p.dy.at[(dy_row + column) * channels + channel], row_sum);
                    }
                }
            }
            sum += row_sum;
        }
        if (item >= weights)
            p.db.at[part * channels + channel] = sum;
        else
            p.dw.at[part * weights + item] = sum;
    }
}
