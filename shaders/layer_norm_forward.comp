#include "kernel.h"

// A subgroup works on one row.
KERNEL(layer_norm_forward, LayerNormForwardParams, 256) {
    FOR_SUBGROUPS(row, p.rows) {
        const uint begin = row * p.channels;
        float sum = 0.0f;
        for (uint c = SUBGROUP_LANE; c < p.channels; c += SUBGROUP_SIZE) sum += p.x.at[begin + c];
        const float mean = subgroupAdd(sum) / float(p.channels);
        float squares = 0.0f;
        for (uint c = SUBGROUP_LANE; c < p.channels; c += SUBGROUP_SIZE) {
            const float deviation = p.x.at[begin + c] - mean;
            squares += deviation * deviation;
        }
        const float variance = subgroupAdd(squares) / float(p.channels);
        const float rstd = 1.0f / sqrt(variance + p.epsilon);
        for (uint c = SUBGROUP_LANE; c < p.channels; c += SUBGROUP_SIZE) {
            float y = (p.x.at[begin + c] - mean) * rstd;
            if (p.gamma_used != 0u) y *= p.gamma.at[c];
            if (p.beta_used != 0u) y += p.beta.at[c];
            p.y.at[begin + c] = y;
        }
        if (SUBGROUP_LANE == 0u) {
            p.mean.at[row] = mean;
            p.rstd.at[row] = rstd;
        }
    }
}
