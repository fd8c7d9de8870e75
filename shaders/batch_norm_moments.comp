#include "kernel.h"

// Sums differences from the chunk's first value, so that a mean far from zero does not cost M2 precision.
KERNEL(batch_norm_moments, BatchNormMomentsParams, 256) {
    const uint chunks = BATCH_NORM_CHUNKS(p.rows, p.chunk_rows);
    FOR_RANGE(i, p.groups * chunks * p.channels) {
        const uint channel = i % p.channels;
        const uint chunk = i / p.channels % chunks;
        const uint group = i / p.channels / chunks;
        const uint row = chunk * p.chunk_rows;
        const uint rows = min(p.chunk_rows, p.rows - row);
        const uint first = (group * p.rows + row) * p.channels + channel;
        const float shift = p.x.at[first];
        float sum = 0.0f;
        float squares = 0.0f;
        for (uint k = 1u; k < rows; ++k) {
            const float difference = p.x.at[first + k * p.channels] - shift;
            sum += difference;
            squares += difference * difference;
        }
        const float shifted_mean = sum / float(rows);
        const float m2 = squares - sum * shifted_mean;
        p.means.at[i] = shift + shifted_mean;
        p.m2s.at[i] = m2 < 0.0f ? 0.0f : m2;
    }
}
