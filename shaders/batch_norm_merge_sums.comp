#include "kernel.h"

KERNEL(batch_norm_merge_sums, BatchNormMergeSumsParams, 256) {
    const uint runs = BATCH_NORM_CHUNKS(p.chunks, p.run);
    FOR_RANGE(i, p.groups * runs * p.channels) {
        const uint channel = i % p.channels;
        const uint begin = i / p.channels % runs * p.run;
        const uint end = min(begin + p.run, p.chunks);
        const uint group = i / p.channels / runs;
        float s1 = 0.0f;
        float s2 = 0.0f;
        for (uint chunk = begin; chunk < end; ++chunk) {
            const uint at = (group * p.chunks + chunk) * p.channels + channel;
            s1 += p.dy_sums.at[at];
            s2 += p.xhat_sums.at[at];
        }
        p.s1.at[i] = s1;
        p.s2.at[i] = s2;
    }
}
