#include "kernel.h"

// A subgroup takes one chunk.
KERNEL(sum_squares, SumSquaresParams, 256) {
    FOR_SUBGROUPS(chunk, REDUCTION_CHUNKS(p.quads)) {
        const uint end = REDUCTION_BEGIN(p.quads, chunk + 1u);
        float sum = 0.0f;
        for (uint i = REDUCTION_BEGIN(p.quads, chunk) + SUBGROUP_LANE; i < end; i += SUBGROUP_SIZE) {
            const vec4 x = p.x.at[i];
            sum += x.x * x.x + x.y * x.y + (x.z * x.z + x.w * x.w);
        }
        sum = subgroupAdd(sum);
        if (SUBGROUP_LANE == 0u) p.partials.at[chunk] = sum;
    }
}
