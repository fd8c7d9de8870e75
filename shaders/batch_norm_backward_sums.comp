#include "kernel.h"
#include "batch_norm.h"
#include "column_sums.h"

KERNEL(batch_norm_backward_sums, BatchNormBackwardSumsParams, 256) {
    const uint quads = QUADS_OF(p.channels);
    const uint width = COLUMN_WIDTH(quads, BATCH_NORM_COLUMNS);
    const uint blocks = COLUMN_BLOCKS(quads, BATCH_NORM_COLUMNS);
    const uint step = ROWS_AT_ONCE(width);
    FOR_WORKGROUPS(i, p.groups * p.splits * blocks) {
        const uint part = i / blocks;
        const uint group = part / p.splits;
        const uint first = group * p.rows + SPLIT_BEGIN(p.rows, p.splits, part % p.splits);
        const uint end = first + SPLIT_ROWS(p.rows, p.splits, part % p.splits);
        const uint quad = COLUMN(i % blocks * width, width);
        vec4 sum = vec4(0.0f);
        vec4 products = vec4(0.0f);
        if (quad < quads && HAS_ROWS(width)) {
            const vec4 mean = channels_at(p.mean, p.channels, group, quad);
            vec4 factor = batch_norm_rstd(channels_at(p.m2, p.channels, group, quad), p.count, p.epsilon);
            if (p.gamma_used != 0u) factor *= channels_at(p.gamma, p.channels, 0u, quad);
            vec4 beta = vec4(0.0f);
            if (p.beta_used != 0u) beta = channels_at(p.beta, p.channels, 0u, quad);
            FOR_ROWS(row, first, end, width) {
                vec4 x[ROWS_IN_FLIGHT];
                vec4 dy[ROWS_IN_FLIGHT];
                FOR_ROWS_IN_FLIGHT(k) {
                    x[k] = channels_at(p.x, p.channels, min(row + k * step, end - 1u), quad);
                    dy[k] = channels_at(p.dy, p.channels, min(row + k * step, end - 1u), quad);
                }
                FOR_ROWS_IN_FLIGHT(k) if (row + k * step < end) {
                    vec4 passed = dy[k];
                    if (p.relu != 0u)
                        passed = where_positive(batch_norm_output(x[k], mean, factor, beta), passed);
                    sum += passed;
                    products += passed * (x[k] - mean);
                }
            }
        }
        column_sums[LOCAL_ID] = sum;
        column_sums[LOCAL_ID + SECOND_SUM] = products;
        add_up_invocations(width, 0u, 2u);
        if (quad < quads && HAS_RESULT(width)) {
            const vec4 rstd =
                batch_norm_rstd(channels_at(p.m2, p.channels, group, quad), p.count, p.epsilon);
            set_channels(p.s1, p.channels, part, quad, column_sums[LOCAL_ID]);
            set_channels(p.s2, p.channels, part, quad, vec4(column_sums[LOCAL_ID + SECOND_SUM]) * rstd);
        }
    }
}
