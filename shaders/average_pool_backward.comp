#include "kernel.h"
#include "average_pool.h"
#include "vec4.h"

// An item is four channels of an input pixel. It gathers from the windows that contain it, in a fixed order.
KERNEL(average_pool_backward, AveragePoolBackwardParams, 256) {
    const uint quads = QUADS_OF(p.shape.channels);
    FOR_RANGE(i, p.shape.batch * p.shape.in_height * p.shape.in_width * quads) {
        const uint pixel = i / quads;
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
        vec4 sum = vec4(0.0f);
        for (uint row = first_row; row < end_row; ++row)
            for (uint column = first_column; column < end_column; ++column) {
                const uint from = (image * p.shape.out_height + row) * p.shape.out_width + column;
                sum += channels_at(p.dy, p.shape.channels, from, i % quads) /
                       average_window(p.shape, row, column).divisor;
            }
        set_channels(p.dx, p.shape.channels, pixel, i % quads, sum);
    }
}
