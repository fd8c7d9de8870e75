#include "kernel.h"
#include "vec4.h"

// An item is four channels of a block of pixels (MAX_POOL_ITEMS): the same windows hold them, and few
// divisions find these. Each pixel gathers from its windows in a fixed order.
KERNEL(max_pool_backward, MaxPoolBackwardParams, 256) {
    const uint quads = QUADS_OF(p.shape.channels);
    const uint rows = MAX_POOL_BLOCK_ROWS(p.shape);
    const uint columns = MAX_POOL_BLOCK_COLUMNS(p.shape);
    const uint height = MAX_POOL_BLOCK(p.shape.stride_y);
    const uint width = MAX_POOL_BLOCK(p.shape.stride_x);
    // So many windows before the last one may hold a pixel.
    const uint rows_before = (p.shape.window_height - 1u) / p.shape.stride_y;
    const uint columns_before = (p.shape.window_width - 1u) / p.shape.stride_x;
    FOR_RANGE(i, p.shape.batch * rows * columns * quads) {
        const uint quad = i % quads;
        const uint block = i / quads;
        const uint first_y = block / columns % rows * height; // in the padded image
        const uint first_x = block % columns * width;
        const uint image = block / columns / rows;
        const uint last_row = first_y / p.shape.stride_y;
        const uint last_column = first_x / p.shape.stride_x;
        const uint first_row = last_row - min(last_row, rows_before);
        const uint first_column = last_column - min(last_column, columns_before);
        const uint end_row = min(last_row + 1u, p.shape.out_height);
        const uint end_column = min(last_column + 1u, p.shape.out_width);
        uint y_in_block = 0u;
        uint x_in_block = 0u;
        for (uint pixel = 0u; pixel < height * width; ++pixel) {
            // By unsigned wrap-around, padding compares as beyond the end.
            const uint y = first_y + y_in_block - p.shape.pad_top;
            const uint x = first_x + x_in_block - p.shape.pad_left;
            if (y < p.shape.in_height && x < p.shape.in_width) {
                vec4 sum = vec4(0.0f);
                for (uint row = first_row; row < end_row; ++row) {
                    const uint y_in_window = first_y + y_in_block - row * p.shape.stride_y;
                    if (y_in_window >= p.shape.window_height) continue;
                    for (uint column = first_column; column < end_column; ++column) {
                        const uint x_in_window = first_x + x_in_block - column * p.shape.stride_x;
                        if (x_in_window >= p.shape.window_width) continue;
                        const uint place = y_in_window * p.shape.window_width + x_in_window;
                        const uint target = (image * p.shape.out_height + row) * p.shape.out_width + column;
                        const uint places = p.argmax.at[target * quads + quad];
                        const bool a = (places & 255u) == place;
                        const bool b = (places >> 8u & 255u) == place;
                        const bool c = (places >> 16u & 255u) == place;
                        const bool d = places >> 24u == place;
                        if (a || b || c || d) {
                            const vec4 dy = channels_at(p.dy, p.shape.channels, target, quad);
                            sum += vec4(a ? dy.x : 0.0f, b ? dy.y : 0.0f, c ? dy.z : 0.0f, d ? dy.w : 0.0f);
                        }
                    }
                }
                set_channels(p.dx, p.shape.channels, (image * p.shape.in_height + y) * p.shape.in_width + x,
                             quad, sum);
            }
            x_in_block = x_in_block + 1u == width ? 0u : x_in_block + 1u;
            y_in_block += x_in_block == 0u ? 1u : 0u;
        }
    }
}
