#include "kernel.h"

KERNEL(batch_norm_parameter_gradients, BatchNormParameterGradientsParams, 256) {
    FOR_RANGE(channel, p.channels) {
        float dgamma = 0.0f;
        float dbeta = 0.0f;
        for (uint group = 0u; group < p.groups; ++group) {
            dgamma += p.s2.at[group * p.channels + channel];
            dbeta += p.s1.at[group * p.channels + channel];
        }
        if (p.gamma_used != 0u) p.dgamma.at[channel] = dgamma;
        if (p.beta_used != 0u) p.dbeta.at[channel] = dbeta;
    }
}
