#include "kernel.h"
#include "column_sums.h"

KERNEL(sum_partials, SumPartialsParams, 256) {
    const bool padded = p.padded_channels != 0u;
    const uint stored_channels = padded ? p.padded_channels : p.channels;
    const uint stored_rows =
        padded ? p.count / (p.rows * p.channels) * p.padded_rows : p.count / p.channels; // of a part
    const uint quads = QUADS_OF(p.channels);
    const uint columns = SUM_PARTIALS_COLUMNS(p);
    const uint width = SUM_PARTIALS_WIDTH(p.parts);
    const uint step = ROWS_AT_ONCE(width);
    FOR_WORKGROUPS(i, SUM_PARTIALS_ITEMS(p)) {
        const uint column = COLUMN(i * width, width);
        vec4 sum = vec4(0.0f);
        if (column < columns) {
            const uint row = column / quads;
            const uint from = padded ? row / p.rows * p.padded_rows + row % p.rows : row;
            FOR_ROWS(part, 0u, p.parts, width) {
                vec4 partials[ROWS_IN_FLIGHT];
                FOR_ROWS_IN_FLIGHT(k)
                    partials[k] =
                        channels_at(p.partials, stored_channels,
                                    min(part + k * step, p.parts - 1u) * stored_rows + from, column % quads);
                FOR_ROWS_IN_FLIGHT(k) if (part + k * step < p.parts) sum += partials[k];
            }
        }
        column_sums[LOCAL_ID] = sum;
        add_up_invocations(width, 0u, 1u);
        if (column < columns && HAS_RESULT(width)) {
            const uint row = column / quads;
            const uint quad = column % quads;
            sum = column_sums[LOCAL_ID];
            if (p.bias != 0u) sum += channels_at(p.b, p.channels, 0u, quad);
            if (p.masked != 0u) sum = where_positive(channels_at(p.x, p.channels, row, quad), sum);
            if (p.relu != 0u) sum = relu_of(sum);
            set_channels(p.sum, p.channels, row, quad, sum);
        }
    }
}
