#include "kernel.h"

KERNEL(pad_channels, PadChannelsParams, 256) {
    const uint row_quads = p.padded_channels / 4u;
    FOR_RANGE(i, p.outer * p.padded_rows * row_quads) {
        const uint padded_row = i / row_quads;
        const uint row = padded_row % p.padded_rows;
        const uint channel = i % row_quads * 4u;
        const uint at = (padded_row / p.padded_rows * p.rows + row) * p.channels + channel;
        vec4 quad = vec4(0.0f);
        UNROLL for (uint c = 0u; c < 4u; ++c) {
            if (row < p.rows && channel + c < p.channels) quad[c] = p.x.at[at + c];
        }
        p.y.at[i] = quad;
    }
}
