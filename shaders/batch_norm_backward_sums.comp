#include "kernel.h"
#include "batch_norm.h"

KERNEL(batch_norm_backward_sums, BatchNormBackwardSumsParams, 256) {
    const uint chunks = BATCH_NORM_CHUNKS(p.rows, p.chunk_rows);
    FOR_RANGE(i, p.groups * chunks * p.channels) {
        const uint channel = i % p.channels;
        const uint row = i / p.channels % chunks * p.chunk_rows;
        const uint group = i / p.channels / chunks;
        const uint end = min(row + p.chunk_rows, p.rows);
        const uint of_group = group * p.channels + channel;
        const float mean = p.mean.at[of_group];
        const float rstd = batch_norm_rstd(p.m2.at[of_group], p.count, p.epsilon);
        float factor = rstd;
        if (p.gamma_used != 0u) factor *= p.gamma.at[channel];
        float beta = 0.0f;
        if (p.beta_used != 0u) beta = p.beta.at[channel];
        float sum = 0.0f;
        float products = 0.0f;
        for (uint k = row; k < end; ++k) {
            const uint at = (group * p.rows + k) * p.channels + channel;
            const float x = p.x.at[at];
            float dy = p.dy.at[at];
            if (p.relu != 0u) dy = batch_norm_output(x, mean, factor, beta) > 0.0f ? dy : 0.0f;
            sum += dy;
            products += dy * (x - mean);
        }
        p.dy_sums.at[i] = sum;
        p.xhat_sums.at[i] = products * rstd;
    }
}
