#include "../kernel.h"

KERNEL(batch_norm_merge_sums, BatchNormMergeSumsParams, 256) {
    FOR_RANGE(i, p.groups * p.channels) {
        const uint first = i / p.channels * p.splits * p.channels + i % p.channels;
        float s1 = 0.0f;
        float s2 = 0.0f;
        for (uint split = 0u; split < p.splits; ++split) {
            s1 += p.s1s.at[first + split * p.channels];
            s2 += p.s2s.at[first + split * p.channels];
        }
        p.s1.at[i] = s1;
        p.s2.at[i] = s2;
    }
}
