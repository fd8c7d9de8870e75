#include "kernel.h"
#include "batch_norm.h"

KERNEL(batch_norm_backward, BatchNormBackwardParams, 256) {
    const uint strips = BATCH_NORM_STRIPS(p.rows);
    const uint quads = QUADS_OF(p.channels);
    FOR_RANGE(i, p.groups * strips * quads) {
        const uint quad = i % quads;
        const uint row = i / quads % strips * BATCH_NORM_STRIP;
        const uint group = i / quads / strips;
        const uint end = min(row + BATCH_NORM_STRIP, p.rows);
        const vec4 mean = channels_at(p.mean, p.channels, group, quad);
        const vec4 rstd = batch_norm_rstd(channels_at(p.m2, p.channels, group, quad), p.count, p.epsilon);
        vec4 mean_dy = vec4(0.0f), slope = vec4(0.0f);
        if (p.sums_used != 0u) {
            mean_dy = channels_at(p.s1, p.channels, group, quad) / p.count;
            slope = rstd * (channels_at(p.s2, p.channels, group, quad) / p.count);
        }
        vec4 factor = rstd;
        if (p.gamma_used != 0u) factor *= channels_at(p.gamma, p.channels, 0u, quad);
        vec4 beta = vec4(0.0f);
        if (p.beta_used != 0u) beta = channels_at(p.beta, p.channels, 0u, quad);
        for (uint k = row; k < end; ++k) {
            const uint pixel = group * p.rows + k;
            const vec4 x = channels_at(p.x, p.channels, pixel, quad);
            vec4 dy = channels_at(p.dy, p.channels, pixel, quad);
            if (p.relu != 0u) dy = where_positive(batch_norm_output(x, mean, factor, beta), dy);
            set_channels(p.dx, p.channels, pixel, quad, factor * (dy - mean_dy - (x - mean) * slope));
        }
    }
}
