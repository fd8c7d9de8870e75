#include "kernel.h"

// Chan et al. 1979 for several chunks at once: first their common mean, then each chunk's contribution to M2
// from its distance to that mean.
KERNEL(batch_norm_merge_moments, BatchNormMergeMomentsParams, 256) {
    const uint chunks = BATCH_NORM_CHUNKS(p.rows, p.chunk_rows);
    const uint runs = BATCH_NORM_CHUNKS(chunks, p.run);
    FOR_RANGE(i, p.groups * runs * p.channels) {
        const uint channel = i % p.channels;
        const uint begin = i / p.channels % runs * p.run;
        const uint end = min(begin + p.run, chunks);
        const uint group = i / p.channels / runs;
        const uint first = group * chunks * p.channels + channel;
        const float shift = p.means.at[first + begin * p.channels];
        float count = 0.0f;
        float sum = 0.0f;
        for (uint chunk = begin; chunk < end; ++chunk) {
            const float rows = float(min(p.chunk_rows, p.rows - chunk * p.chunk_rows));
            count += rows;
            sum += rows * (p.means.at[first + chunk * p.channels] - shift);
        }
        const float mean = shift + sum / count;
        float m2 = 0.0f;
        for (uint chunk = begin; chunk < end; ++chunk) {
            const float rows = float(min(p.chunk_rows, p.rows - chunk * p.chunk_rows));
            const float difference = p.means.at[first + chunk * p.channels] - mean;
            m2 += p.m2s.at[first + chunk * p.channels] + rows * difference * difference;
        }
        p.mean.at[i] = mean;
        p.m2.at[i] = m2;
    }
}
