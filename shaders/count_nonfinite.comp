#include "kernel.h"

KERNEL(count_nonfinite, CountNonfiniteParams, 256) {
    FOR_RANGE(chunk, REDUCTION_CHUNKS(p.quads)) {
        const uint end = REDUCTION_BEGIN(p.quads, chunk / REDUCTION_LANES + 1u);
        uint count = 0u;
        for (uint block = REDUCTION_BEGIN(p.quads, chunk / REDUCTION_LANES); block < end; ++block) {
            for (uint k = 0u; k < REDUCTION_DEPTH; ++k) {
                const uint i = block * REDUCTION_BLOCK + k * REDUCTION_LANES + chunk % REDUCTION_LANES;
                if (i < p.quads) {
                    const vec4 x = p.x.at[i];
                    count += (is_finite(x.x) ? 0u : 1u) + (is_finite(x.y) ? 0u : 1u) + (is_finite(x.z) ? 0u : 1u) +
                             (is_finite(x.w) ? 0u : 1u);
                }
            }
        }
        p.counts.at[chunk] = count;
    }
}
