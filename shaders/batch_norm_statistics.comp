#include "kernel.h"

KERNEL(batch_norm_statistics, BatchNormStatisticsParams, 256) {
    FOR_RANGE(channel, p.channels) {
        float mean = 0.0f;
        float variance = 0.0f;
        for (uint group = 0u; group < p.groups; ++group) {
            mean += p.mean.at[group * p.channels + channel];
            variance += p.m2.at[group * p.channels + channel] / p.divisor;
        }
        p.out_mean.at[channel] = p.scale * mean;
        p.out_variance.at[channel] = p.scale * variance;
    }
}
