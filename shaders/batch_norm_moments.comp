#include "kernel.h"
#include "batch_norm.h"

// Sums differences from the chunk's first value, so that a mean far from zero does not cost M2 precision.
KERNEL(batch_norm_moments, BatchNormMomentsParams, 256) {
    const uint chunks = BATCH_NORM_CHUNKS(p.rows, p.chunk_rows);
    const uint quads = QUADS_OF(p.channels);
    FOR_RANGE(i, p.groups * chunks * quads) {
        const uint quad = i % quads;
        const uint row = i / quads % chunks * p.chunk_rows;
        const uint group = i / quads / chunks;
        const uint rows = min(p.chunk_rows, p.rows - row);
        const uint first = group * p.rows + row;
        const vec4 shift = channels_at(p.x, p.channels, first, quad);
        vec4 sum = vec4(0.0f);
        vec4 squares = vec4(0.0f);
        for (uint k = 1u; k < rows; ++k) {
            const vec4 difference = channels_at(p.x, p.channels, first + k, quad) - shift;
            sum += difference;
            squares += difference * difference;
        }
        const vec4 shifted_mean = sum / float(rows);
        set_channels(p.means, p.channels, i / quads, quad, shift + shifted_mean);
        const vec4 m2 = relu_of(squares - sum * shifted_mean); // may round below zero
        set_channels(p.m2s, p.channels, i / quads, quad, m2);
    }
}
