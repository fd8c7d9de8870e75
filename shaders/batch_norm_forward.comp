#include "kernel.h"
#include "batch_norm.h"

KERNEL(batch_norm_forward, BatchNormForwardParams, 256) {
    const uint strips = BATCH_NORM_STRIPS(p.rows);
    FOR_RANGE(i, p.groups * strips * p.channels) {
        const uint channel = i % p.channels;
        const uint row = i / p.channels % strips * BATCH_NORM_STRIP;
        const uint group = i / p.channels / strips;
        const uint end = min(row + BATCH_NORM_STRIP, p.rows);
        const uint of_group = group * p.channels + channel;
        const float mean = p.mean.at[of_group];
        float factor = batch_norm_rstd(p.m2.at[of_group], p.count, p.epsilon);
        if (p.gamma_used != 0u) factor *= p.gamma.at[channel];
        float beta = 0.0f;
        if (p.beta_used != 0u) beta = p.beta.at[channel];
        for (uint k = row; k < end; ++k) {
            const uint at = (group * p.rows + k) * p.channels + channel;
            float y = batch_norm_output(p.x.at[at], mean, factor, beta);
            if (p.addend_used != 0u) y += p.addend.at[at];
            p.y.at[at] = p.relu != 0u && y < 0.0f ? 0.0f : y;
        }
    }
}
