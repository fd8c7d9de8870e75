#include "kernel.h"

// An item is four channels of an input pixel: it gathers from the windows that hold it, in a fixed order.
KERNEL(max_pool_backward, MaxPoolBackwardParams, 256) {
    const uint quads = (p.shape.channels + 3u) / 4u;
    FOR_RANGE(i, p.shape.batch * p.shape.in_height * p.shape.in_width * quads) {
        const uint quad = i % quads;
        const uint pixel = i / quads;
        const uint x = pixel % p.shape.in_width + p.shape.pad_left;
        const uint y = pixel / p.shape.in_width % p.shape.in_height + p.shape.pad_top;
        const uint image = pixel / p.shape.in_width / p.shape.in_height;
        const uint lanes = min(4u, p.shape.channels - quad * 4u);
        // The windows that hold y begin at rows (y - window, y]; only every stride-th of them exists.
        const uint first_row = y < p.shape.window ? 0u : (y - p.shape.window) / p.shape.stride + 1u;
        const uint first_column = x < p.shape.window ? 0u : (x - p.shape.window) / p.shape.stride + 1u;
        const uint last_row = min(y / p.shape.stride, p.shape.out_height - 1u);
        const uint last_column = min(x / p.shape.stride, p.shape.out_width - 1u);
        vec4 sum = vec4(0.0f);
        for (uint row = first_row; row <= last_row; ++row) {
            for (uint column = first_column; column <= last_column; ++column) {
                const uint place = (y - row * p.shape.stride) * p.shape.window + x - column * p.shape.stride;
                const uint target = (image * p.shape.out_height + row) * p.shape.out_width + column;
                const uint places = p.argmax.at[target * quads + quad];
                UNROLL for (uint lane = 0u; lane < 4u; ++lane)
                    if (lane < lanes && (places >> (8u * lane) & 255u) == place)
                        sum[lane] += p.dy.at[target * p.shape.channels + quad * 4u + lane];
            }
        }
        UNROLL for (uint lane = 0u; lane < 4u; ++lane)
            if (lane < lanes) p.dx.at[pixel * p.shape.channels + quad * 4u + lane] = sum[lane];
    }
}
