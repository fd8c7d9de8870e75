#include "../kernel.h"
#include "../vec4.h"

// An invocation takes all rows of a split.
KERNEL(layer_norm_parameter_sums, LayerNormParameterSumsParams, 256) {
    const uint quads = QUADS_OF(p.channels);
    FOR_RANGE(i, p.splits * quads) {
        const uint quad = i % quads;
        const uint split = i / quads;
        const uint first = SPLIT_BEGIN(p.rows, p.splits, split);
        const uint end = first + SPLIT_ROWS(p.rows, p.splits, split);
        vec4 sum = vec4(0.0f);
        vec4 products = vec4(0.0f);
        for (uint row = first; row < end; ++row) {
            const vec4 x = channels_at(p.x, p.channels, row, quad);
            const vec4 dy = channels_at(p.dy, p.channels, row, quad);
            sum += dy;
            products += dy * ((x - p.mean.at[row]) * p.rstd.at[row]);
        }
        set_channels(p.s1, p.channels, split, quad, sum);
        set_channels(p.s2, p.channels, split, quad, products);
    }
}
