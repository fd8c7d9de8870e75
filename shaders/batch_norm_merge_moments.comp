#include "kernel.h"
#include "column_sums.h"

// Chan et al. 1979 for several splits at once: first their common mean, then each split's contribution to M2
// from its distance to that mean.
KERNEL(batch_norm_merge_moments, BatchNormMergeMomentsParams, 256) {
    const uint quads = QUADS_OF(p.channels);
    const uint width = COLUMN_WIDTH(quads, MERGE_COLUMNS);
    const uint blocks = COLUMN_BLOCKS(quads, MERGE_COLUMNS);
    const uint step = ROWS_AT_ONCE(width);
    FOR_WORKGROUPS(i, p.groups * blocks) {
        const uint first = i / blocks * p.splits; // row of the group
        const uint quad = COLUMN(i % blocks * width, width);
        vec4 sum = vec4(0.0f);
        if (quad < quads && HAS_ROWS(width)) {
            const vec4 shift = channels_at(p.means, p.channels, first, quad);
            FOR_ROWS(split, 0u, p.splits, width) {
                vec4 means[ROWS_IN_FLIGHT];
                FOR_ROWS_IN_FLIGHT(k)
                    means[k] = channels_at(p.means, p.channels,
                                           first + min(split + k * step, p.splits - 1u), quad);
                FOR_ROWS_IN_FLIGHT(k) if (split + k * step < p.splits)
                    sum += float(SPLIT_ROWS(p.rows, p.splits, split + k * step)) * (means[k] - shift);
            }
        }
        column_sums[LOCAL_ID] = sum;
        add_up_invocations(width, 0u, 1u);
        vec4 m2 = vec4(0.0f);
        if (quad < quads && HAS_ROWS(width)) {
            const vec4 mean = channels_at(p.means, p.channels, first, quad) +
                              vec4(column_sums[LOCAL_ID % width]) / float(p.rows);
            FOR_ROWS(split, 0u, p.splits, width) {
                vec4 means[ROWS_IN_FLIGHT];
                vec4 m2s[ROWS_IN_FLIGHT];
                FOR_ROWS_IN_FLIGHT(k) {
                    const uint row = first + min(split + k * step, p.splits - 1u);
                    means[k] = channels_at(p.means, p.channels, row, quad);
                    m2s[k] = channels_at(p.m2s, p.channels, row, quad);
                }
                FOR_ROWS_IN_FLIGHT(k) if (split + k * step < p.splits) {
                    const vec4 difference = means[k] - mean;
                    const float rows = float(SPLIT_ROWS(p.rows, p.splits, split + k * step));
                    m2 += m2s[k] + rows * difference * difference;
                }
            }
        }
        column_sums[LOCAL_ID + SECOND_SUM] = m2;
        add_up_invocations(width, 1u, 2u);
        if (quad < quads && HAS_RESULT(width)) {
            const vec4 mean = channels_at(p.means, p.channels, first, quad) +
                              vec4(column_sums[LOCAL_ID]) / float(p.rows);
            set_channels(p.mean, p.channels, i / blocks, quad, mean);
            set_channels(p.m2, p.channels, i / blocks, quad, column_sums[LOCAL_ID + SECOND_SUM]);
        }
    }
}
