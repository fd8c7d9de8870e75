#include "kernel.h"

// A subgroup works on one row.
KERNEL(layer_norm_backward, LayerNormBackwardParams, 256) {
    FOR_SUBGROUPS(row, p.rows) {
        const uint begin = row * p.channels;
        const float mean = p.mean.at[row];
        const float rstd = p.rstd.at[row];
        float sum = 0.0f;
        float products = 0.0f;
        for (uint c = SUBGROUP_LANE; c < p.channels; c += SUBGROUP_SIZE) {
            float g = p.dy.at[begin + c];
            if (p.gamma_used != 0u) g *= p.gamma.at[c];
            sum += g;
            products += g * ((p.x.at[begin + c] - mean) * rstd);
        }
        const float g_mean = subgroupAdd(sum) / float(p.channels);
        const float product_mean = subgroupAdd(products) / float(p.channels);
        for (uint c = SUBGROUP_LANE; c < p.channels; c += SUBGROUP_SIZE) {
            float g = p.dy.at[begin + c];
            if (p.gamma_used != 0u) g *= p.gamma.at[c];
            p.dx.at[begin + c] = rstd * (g - g_mean - (p.x.at[begin + c] - mean) * rstd * product_mean);
        }
    }
}
