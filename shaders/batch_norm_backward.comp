#include "kernel.h"
#include "batch_norm.h"

KERNEL(batch_norm_backward, BatchNormBackwardParams, 256) {
    const uint strips = BATCH_NORM_STRIPS(p.rows);
    FOR_RANGE(i, p.groups * strips * p.channels) {
        const uint channel = i % p.channels;
        const uint row = i / p.channels % strips * BATCH_NORM_STRIP;
        const uint group = i / p.channels / strips;
        const uint end = min(row + BATCH_NORM_STRIP, p.rows);
        const uint of_group = group * p.channels + channel;
        const float mean = p.mean.at[of_group];
        const float rstd = batch_norm_rstd(p.m2.at[of_group], p.count, p.epsilon);
        const float mean_dy = p.s1.at[of_group] / p.count;
        const float slope = rstd * (p.s2.at[of_group] / p.count);
        float factor = rstd;
        if (p.gamma_used != 0u) factor *= p.gamma.at[channel];
        float beta = 0.0f;
        if (p.beta_used != 0u) beta = p.beta.at[channel];
        for (uint k = row; k < end; ++k) {
            const uint at = (group * p.rows + k) * p.channels + channel;
            const float x = p.x.at[at];
            float dy = p.dy.at[at];
            if (p.relu != 0u) dy = batch_norm_output(x, mean, factor, beta) > 0.0f ? dy : 0.0f;
            p.dx.at[at] = factor * (dy - mean_dy - (x - mean) * slope);
        }
    }
}
