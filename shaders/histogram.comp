#include "kernel.h"

// A subgroup takes one chunk. Integer additions give the same in any order. Zeros, of which a ReLU's output is full,
// are added up first, since additions to one word wait for each other.
KERNEL(histogram, HistogramParams, 256) {
    FOR_SUBGROUPS(chunk, REDUCTION_CHUNKS(QUADS_OF(p.count))) {
        const uint quads = QUADS_OF(p.count);
        const uint end = min(REDUCTION_BEGIN(quads, chunk + 1u) * 4u, p.count);
        float least = 3.402823466e38f;
        float largest = -3.402823466e38f;
        float sum = 0.0f;
        float squares = 0.0f;
        uint zeros = 0u;
        for (uint i = REDUCTION_BEGIN(quads, chunk) * 4u + SUBGROUP_LANE; i < end; i += SUBGROUP_SIZE) {
            const float x = p.x.at[i];
            const uint size = as_uint(x) & 0x7fffffffu;
            if (size >= 0x7f800000u) {
                ADD_ATOMICALLY(p.counts.at[HISTOGRAM_NONFINITE], 1u);
                continue;
            }
            least = min(least, x);
            largest = max(largest, x);
            sum += x;
            squares += x * x;
            if (size == 0u) {
                zeros += 1u;
                continue;
            }
            const uint place =
                size < HISTOGRAM_LOW ? 0u : min(((size - HISTOGRAM_LOW) >> HISTOGRAM_SHIFT) + 1u, HISTOGRAM_SIDE);
            const uint bin = as_uint(x) == size ? HISTOGRAM_SIDE + place : HISTOGRAM_SIDE - place;
            ADD_ATOMICALLY(p.counts.at[bin], 1u);
        }
        zeros = subgroupAdd(zeros);
        least = -subgroupMax(-least);
        largest = subgroupMax(largest);
        sum = subgroupAdd(sum);
        squares = subgroupAdd(squares);
        if (SUBGROUP_LANE == 0u) {
            ADD_ATOMICALLY(p.counts.at[HISTOGRAM_ZEROS], zeros);
            p.partials.at[chunk] = vec4(least, largest, sum, squares);
        }
    }
}
