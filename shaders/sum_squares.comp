#include "kernel.h"

KERNEL(sum_squares, SumSquaresParams, 256) {
    FOR_RANGE(chunk, REDUCTION_CHUNKS(p.quads)) {
        const uint end = REDUCTION_BEGIN(p.quads, chunk / REDUCTION_LANES + 1u);
        float sum = 0.0f;
        for (uint block = REDUCTION_BEGIN(p.quads, chunk / REDUCTION_LANES); block < end; ++block) {
            for (uint k = 0u; k < REDUCTION_DEPTH; ++k) {
                const uint i = block * REDUCTION_BLOCK + k * REDUCTION_LANES + chunk % REDUCTION_LANES;
                if (i < p.quads) {
                    const vec4 x = p.x.at[i];
                    sum += x.x * x.x + x.y * x.y + (x.z * x.z + x.w * x.w);
                }
            }
        }
        p.partials.at[chunk] = sum;
    }
}
