#include "../kernel.h"

KERNEL(batch_norm_merge_moments, BatchNormMergeMomentsParams, 256) {
    FOR_RANGE(i, p.groups * p.channels) {
        const uint first = i / p.channels * p.splits * p.channels + i % p.channels;
        const float shift = p.means.at[first];
        float sum = 0.0f;
        for (uint split = 0u; split < p.splits; ++split)
            sum += float(SPLIT_ROWS(p.rows, p.splits, split)) * (p.means.at[first + split * p.channels] - shift);
        const float mean = shift + sum / float(p.rows);
        float m2 = 0.0f;
        for (uint split = 0u; split < p.splits; ++split) {
            const float difference = p.means.at[first + split * p.channels] - mean;
            m2 += p.m2s.at[first + split * p.channels] +
                  float(SPLIT_ROWS(p.rows, p.splits, split)) * difference * difference;
        }
        p.mean.at[i] = mean;
        p.m2.at[i] = m2;
    }
}
