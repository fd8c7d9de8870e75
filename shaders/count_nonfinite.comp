#include "kernel.h"

// A subgroup takes one chunk.
KERNEL(count_nonfinite, CountNonfiniteParams, 256) {
    FOR_SUBGROUPS(chunk, REDUCTION_CHUNKS(p.quads)) {
        const uint end = REDUCTION_BEGIN(p.quads, chunk + 1u);
        uint count = 0u;
        for (uint i = REDUCTION_BEGIN(p.quads, chunk) + SUBGROUP_LANE; i < end; i += SUBGROUP_SIZE) {
            const vec4 x = p.x.at[i];
            count += (is_finite(x.x) ? 0u : 1u) + (is_finite(x.y) ? 0u : 1u) + (is_finite(x.z) ? 0u : 1u) +
                     (is_finite(x.w) ? 0u : 1u);
        }
        count = subgroupAdd(count);
        if (SUBGROUP_LANE == 0u) p.counts.at[chunk] = count;
    }
}
