#include "kernel.h"
#include "batch_norm.h"

KERNEL(batch_norm_backward_sums, BatchNormBackwardSumsParams, 256) {
    const uint chunks = BATCH_NORM_CHUNKS(p.rows, p.chunk_rows);
    const uint quads = QUADS_OF(p.channels);
    FOR_RANGE(i, p.groups * chunks * quads) {
        const uint quad = i % quads;
        const uint row = i / quads % chunks * p.chunk_rows;
        const uint group = i / quads / chunks;
        const uint end = min(row + p.chunk_rows, p.rows);
        const vec4 mean = channels_at(p.mean, p.channels, group, quad);
        const vec4 rstd = batch_norm_rstd(channels_at(p.m2, p.channels, group, quad), p.count, p.epsilon);
        vec4 factor = rstd;
        if (p.gamma_used != 0u) factor *= channels_at(p.gamma, p.channels, 0u, quad);
        vec4 beta = vec4(0.0f);
        if (p.beta_used != 0u) beta = channels_at(p.beta, p.channels, 0u, quad);
        vec4 sum = vec4(0.0f);
        vec4 products = vec4(0.0f);
        for (uint k = row; k < end; ++k) {
            const uint pixel = group * p.rows + k;
            const vec4 x = channels_at(p.x, p.channels, pixel, quad);
            vec4 dy = channels_at(p.dy, p.channels, pixel, quad);
            if (p.relu != 0u) dy = where_positive(batch_norm_output(x, mean, factor, beta), dy);
            sum += dy;
            products += dy * (x - mean);
        }
        set_channels(p.dy_sums, p.channels, i / quads, quad, sum);
        set_channels(p.xhat_sums, p.channels, i / quads, quad, products * rstd);
    }
}
