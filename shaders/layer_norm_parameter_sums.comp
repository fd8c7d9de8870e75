#include "kernel.h"
#include "column_sums.h"

KERNEL(layer_norm_parameter_sums, LayerNormParameterSumsParams, 256) {
    const uint quads = QUADS_OF(p.channels);
    const uint width = COLUMN_WIDTH(quads, BATCH_NORM_COLUMNS);
    const uint blocks = COLUMN_BLOCKS(quads, BATCH_NORM_COLUMNS);
    const uint step = ROWS_AT_ONCE(width);
    FOR_WORKGROUPS(i, p.splits * blocks) {
        const uint split = i / blocks;
        const uint first = SPLIT_BEGIN(p.rows, p.splits, split);
        const uint end = first + SPLIT_ROWS(p.rows, p.splits, split);
        const uint quad = COLUMN(i % blocks * width, width);
        vec4 sum = vec4(0.0f);
        vec4 products = vec4(0.0f);
        if (quad < quads && HAS_ROWS(width)) {
            FOR_ROWS(row, first, end, width) {
                vec4 xhat[ROWS_IN_FLIGHT];
                vec4 dy[ROWS_IN_FLIGHT];
                FOR_ROWS_IN_FLIGHT(k) {
                    const uint here = min(row + k * step, end - 1u);
                    xhat[k] = (channels_at(p.x, p.channels, here, quad) - p.mean.at[here]) * p.rstd.at[here];
                    dy[k] = channels_at(p.dy, p.channels, here, quad);
                }
                FOR_ROWS_IN_FLIGHT(k) if (row + k * step < end) {
                    sum += dy[k];
                    products += dy[k] * xhat[k];
                }
            }
        }
        column_sums[LOCAL_ID] = sum;
        column_sums[LOCAL_ID + SECOND_SUM] = products;
        add_up_invocations(width, 0u, 2u);
        if (quad < quads && HAS_RESULT(width)) {
            set_channels(p.s1, p.channels, split, quad, column_sums[LOCAL_ID]);
            set_channels(p.s2, p.channels, split, quad, column_sums[LOCAL_ID + SECOND_SUM]);
        }
    }
}
