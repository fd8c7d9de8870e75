#include "kernel.h"
#include "batch_norm.h"

KERNEL(batch_norm_forward, BatchNormForwardParams, 256) {
    const uint strips = BATCH_NORM_STRIPS(p.rows);
    const uint quads = QUADS_OF(p.channels);
    FOR_RANGE(i, p.groups * strips * quads) {
        const uint quad = i % quads;
        const uint row = i / quads % strips * BATCH_NORM_STRIP;
        const uint group = i / quads / strips;
        const uint end = min(row + BATCH_NORM_STRIP, p.rows);
        const vec4 mean = channels_at(p.mean, p.channels, group, quad);
        vec4 factor = batch_norm_rstd(channels_at(p.m2, p.channels, group, quad), p.count, p.epsilon);
        if (p.gamma_used != 0u) factor *= channels_at(p.gamma, p.channels, 0u, quad);
        vec4 beta = vec4(0.0f);
        if (p.beta_used != 0u) beta = channels_at(p.beta, p.channels, 0u, quad);
        for (uint k = row; k < end; ++k) {
            const uint pixel = group * p.rows + k;
            vec4 y = batch_norm_output(channels_at(p.x, p.channels, pixel, quad), mean, factor, beta);
            if (p.addend_used != 0u) y += channels_at(p.addend, p.channels, pixel, quad);
            if (p.relu != 0u) y = relu_of(y);
            set_channels(p.y, p.channels, pixel, quad, y);
        }
    }
}
