#include "kernel.h"
#include "average_pool.h"

// An item is an element of the input. It gathers from the windows that contain it, in a fixed order.
KERNEL(average_pool_backward, AveragePoolBackwardParams, 256) {
    FOR_RANGE(i, p.shape.batch * p.shape.in_height * p.shape.in_width * p.shape.channels) {
        const uint pixel = i / p.shape.channels;
        const uint x = pixel % p.shape.in_width + p.shape.pad_left;
        const uint y = pixel / p.shape.in_width % p.shape.in_height + p.shape.pad_top;
        const uint image = pixel / p.shape.in_width / p.shape.in_height;
        // The windows that hold y begin at rows (y - window, y]; only every stride-th of them exists.
        const uint first_row =
            y < p.shape.window_height ? 0u : (y - p.shape.window_height) / p.shape.stride_y + 1u;
        const uint first_column =
            x < p.shape.window_width ? 0u : (x - p.shape.window_width) / p.shape.stride_x + 1u;
        const uint end_row = min(y / p.shape.stride_y + 1u, p.shape.out_height);
        const uint end_column = min(x / p.shape.stride_x + 1u, p.shape.out_width);
        float sum = 0.0f;
        for (uint row = first_row; row < end_row; ++row)
            for (uint column = first_column; column < end_column; ++column) {
                const uint from = (image * p.shape.out_height + row) * p.shape.out_width + column;
                sum += p.dy.at[from * p.shape.channels + i % p.shape.channels] /
                       average_window(p.shape, row, column).divisor;
            }
        p.dx.at[i] = sum;
    }
}
