#include "kernel.h"
#include "column_sums.h"

// Sums differences from the first value, so that a mean far from zero does not cost M2 precision.
KERNEL(batch_norm_moments, BatchNormMomentsParams, 256) {
    const uint quads = QUADS_OF(p.channels);
    const uint width = COLUMN_WIDTH(quads, BATCH_NORM_COLUMNS);
    const uint blocks = COLUMN_BLOCKS(quads, BATCH_NORM_COLUMNS);
    const uint step = ROWS_AT_ONCE(width);
    FOR_WORKGROUPS(i, p.groups * p.splits * blocks) {
        const uint part = i / blocks;
        const uint first = part / p.splits * p.rows + SPLIT_BEGIN(p.rows, p.splits, part % p.splits);
        const uint rows = SPLIT_ROWS(p.rows, p.splits, part % p.splits);
        const uint last = first + rows - 1u;
        const uint quad = COLUMN(i % blocks * width, width);
        vec4 sum = vec4(0.0f);
        vec4 squares = vec4(0.0f);
        if (quad < quads && HAS_ROWS(width)) {
            const vec4 shift = channels_at(p.x, p.channels, first, quad);
            FOR_ROWS(row, first, first + rows, width) {
                vec4 x[ROWS_IN_FLIGHT];
                FOR_ROWS_IN_FLIGHT(k)
                    x[k] = channels_at(p.x, p.channels, min(row + k * step, last), quad);
                FOR_ROWS_IN_FLIGHT(k) {
                    const vec4 difference = row + k * step <= last ? x[k] - shift : vec4(0.0f);
                    sum += difference;
                    squares += difference * difference;
                }
            }
        }
        column_sums[LOCAL_ID] = sum;
        column_sums[LOCAL_ID + SECOND_SUM] = squares;
        add_up_invocations(width, 0u, 2u);
        if (quad < quads && HAS_RESULT(width)) {
            sum = column_sums[LOCAL_ID];
            squares = column_sums[LOCAL_ID + SECOND_SUM];
            const vec4 shift = channels_at(p.x, p.channels, first, quad);
            const vec4 shifted_mean = sum / float(rows);
            set_channels(p.mean, p.channels, part, quad, shift + shifted_mean);
            const vec4 m2 = relu_of(squares - sum * shifted_mean); // may round below zero
            set_channels(p.m2, p.channels, part, quad, m2);
        }
    }
}
