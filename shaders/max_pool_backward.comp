#include "kernel.h"
#include "vec4.h"

// An item is four channels of an input pixel. It gathers from the windows that contain it, in a fixed order.
KERNEL(max_pool_backward, MaxPoolBackwardParams, 256) {
    const uint quads = QUADS_OF(p.shape.channels);
    FOR_RANGE(i, p.shape.batch * p.shape.in_height * p.shape.in_width * quads) {
        const uint quad = i % quads;
        const uint pixel = i / quads;
        const uint x = pixel % p.shape.in_width + p.shape.pad_left;
        const uint y = pixel / p.shape.in_width % p.shape.in_height + p.shape.pad_top;
        const uint image = pixel / p.shape.in_width / p.shape.in_height;
        // The windows that hold y begin at rows (y - window_height, y]; only every stride-th of them exists.
        const uint first_row =
            y < p.shape.window_height ? 0u : (y - p.shape.window_height) / p.shape.stride_y + 1u;
        const uint first_column =
            x < p.shape.window_width ? 0u : (x - p.shape.window_width) / p.shape.stride_x + 1u;
        const uint last_row = min(y / p.shape.stride_y, p.shape.out_height - 1u);
        const uint last_column = min(x / p.shape.stride_x, p.shape.out_width - 1u);
        vec4 sum = vec4(0.0f);
        for (uint row = first_row; row <= last_row; ++row) {
            for (uint column = first_column; column <= last_column; ++column) {
                const uint place =
                    (y - row * p.shape.stride_y) * p.shape.window_width + x - column * p.shape.stride_x;
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
        set_channels(p.dx, p.shape.channels, pixel, quad, sum);
    }
}
