#include "kernel.h"

KERNEL(window_rows, WindowRowsParams, 256) {
    const uint quads = p.padded_row / 4u;
    const uint length = p.in_width * p.channels;
    const uint window = p.kernel_width * p.channels;
    FOR_RANGE(i, p.rows * p.out_width * quads) {
        const uint place = i / quads;
        const uint row = place / p.out_width;
        const uint in_window = i % quads * 4u;
        // By unsigned wrap-around, floats before the row compare as beyond its end.
        const uint in_row = (place % p.out_width * p.stride_x - p.pad_left) * p.channels + in_window;
        vec4 quad = vec4(0.0f);
        UNROLL for (uint c = 0u; c < 4u; ++c) {
            if (in_window + c < window && in_row + c < length) quad[c] = p.x.at[row * length + in_row + c];
        }
        p.y.at[i] = quad;
    }
}
