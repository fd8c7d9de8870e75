#include "kernel.h"
#include "column_sums.h"

KERNEL(batch_norm_merge_sums, BatchNormMergeSumsParams, 256) {
    const uint quads = QUADS_OF(p.channels);
    const uint width = COLUMN_WIDTH(quads, MERGE_COLUMNS);
    const uint blocks = COLUMN_BLOCKS(quads, MERGE_COLUMNS);
    const uint step = ROWS_AT_ONCE(width);
    FOR_WORKGROUPS(i, p.groups * blocks) {
        const uint first = i / blocks * p.splits;
        const uint last = first + p.splits - 1u;
        const uint quad = COLUMN(i % blocks * width, width);
        vec4 s1 = vec4(0.0f);
        vec4 s2 = vec4(0.0f);
        if (quad < quads && HAS_ROWS(width)) {
            FOR_ROWS(row, first, first + p.splits, width) {
                vec4 s1s[ROWS_IN_FLIGHT];
                vec4 s2s[ROWS_IN_FLIGHT];
                FOR_ROWS_IN_FLIGHT(k) {
                    s1s[k] = channels_at(p.s1s, p.channels, min(row + k * step, last), quad);
                    s2s[k] = channels_at(p.s2s, p.channels, min(row + k * step, last), quad);
                }
                FOR_ROWS_IN_FLIGHT(k) if (row + k * step <= last) {
                    s1 += s1s[k];
                    s2 += s2s[k];
                }
            }
        }
        column_sums[LOCAL_ID] = s1;
        column_sums[LOCAL_ID + SECOND_SUM] = s2;
        add_up_invocations(width, 0u, 2u);
        if (quad < quads && HAS_RESULT(width)) {
            set_channels(p.s1, p.channels, i / blocks, quad, column_sums[LOCAL_ID]);
            set_channels(p.s2, p.channels, i / blocks, quad, column_sums[LOCAL_ID + SECOND_SUM]);
        }
    }
}
