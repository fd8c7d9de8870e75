#include "kernel.h"

KERNEL(layer_norm_parameter_sums, LayerNormParameterSumsParams, 256) {
    FOR_RANGE(i, BATCH_NORM_CHUNKS(p.rows, p.chunk_rows) * p.channels) {
        const uint channel = i % p.channels;
        const uint begin = i / p.channels * p.chunk_rows;
        const uint end = min(begin + p.chunk_rows, p.rows);
        float sum = 0.0f;
        float products = 0.0f;
        for (uint row = begin; row < end; ++row) {
            const uint at = row * p.channels + channel;
            const float dy = p.dy.at[at];
            sum += dy;
            products += dy * ((p.x.at[at] - p.mean.at[row]) * p.rstd.at[row]);
        }
        p.dy_sums.at[i] = sum;
        p.xhat_sums.at[i] = products;
    }
}
