#include "../kernel.h"
#include "../batch_norm.h"

// An invocation takes all rows of a split.
KERNEL(batch_norm_moments, BatchNormMomentsParams, 256) {
    const uint quads = QUADS_OF(p.channels);
    FOR_RANGE(i, p.groups * p.splits * quads) {
        const uint quad = i % quads;
        const uint part = i / quads;
        const uint first = part / p.splits * p.rows + SPLIT_BEGIN(p.rows, p.splits, part % p.splits);
        const uint rows = SPLIT_ROWS(p.rows, p.splits, part % p.splits);
        const vec4 shift = channels_at(p.x, p.channels, first, quad);
        vec4 sum = vec4(0.0f);
        vec4 squares = vec4(0.0f);
        for (uint k = 1u; k < rows; ++k) {
            const vec4 difference = channels_at(p.x, p.channels, first + k, quad) - shift;
            sum += difference;
            squares += difference * difference;
        }
        const vec4 shifted_mean = sum / float(rows);
        set_channels(p.mean, p.channels, part, quad, shift + shifted_mean);
        set_channels(p.m2, p.channels, part, quad, relu_of(squares - sum * shifted_mean));
    }
}
