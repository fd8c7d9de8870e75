#include "../kernel.h"
#include "../batch_norm.h"

// An invocation takes all rows of a split.
KERNEL(batch_norm_backward_sums, BatchNormBackwardSumsParams, 256) {
    const uint quads = QUADS_OF(p.channels);
    FOR_RANGE(i, p.groups * p.splits * quads) {
        const uint quad = i % quads;
        const uint part = i / quads;
        const uint group = part / p.splits;
        const uint first = group * p.rows + SPLIT_BEGIN(p.rows, p.splits, part % p.splits);
        const uint end = first + SPLIT_ROWS(p.rows, p.splits, part % p.splits);
        const vec4 mean = channels_at(p.mean, p.channels, group, quad);
        const vec4 rstd = batch_norm_rstd(channels_at(p.m2, p.channels, group, quad), p.count, p.epsilon);
        vec4 factor = rstd;
        if (p.gamma_used != 0u) factor *= channels_at(p.gamma, p.channels, 0u, quad);
        vec4 beta = vec4(0.0f);
        if (p.beta_used != 0u) beta = channels_at(p.beta, p.channels, 0u, quad);
        vec4 sum = vec4(0.0f);
        vec4 products = vec4(0.0f);
        for (uint row = first; row < end; ++row) {
            const vec4 x = channels_at(p.x, p.channels, row, quad);
            vec4 dy = channels_at(p.dy, p.channels, row, quad);
            if (p.relu != 0u) dy = where_positive(batch_norm_output(x, mean, factor, beta), dy);
            sum += dy;
            products += dy * (x - mean);
        }
        set_channels(p.s1, p.channels, part, quad, sum);
        set_channels(p.s2, p.channels, part, quad, products * rstd);
    }
}
