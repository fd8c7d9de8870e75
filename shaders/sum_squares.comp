#include "kernel.h"
#include "reduction.h"

KERNEL(sum_squares, SumSquaresParams, 256) {
    FOR_SUBGROUPS(chunk, REDUCTION_CHUNKS(p.quads)) {
        float sum = 0.0f;
        FOR_CHUNK(i, p.quads, chunk) {
            vec4 x[QUADS_IN_FLIGHT];
            FOR_QUADS_IN_FLIGHT(k) x[k] = p.x.at[QUAD_IN_FLIGHT(i, k)];
            FOR_QUADS_IN_FLIGHT(k) if (IS_IN_CHUNK(i, k))
                sum += x[k].x * x[k].x + x[k].y * x[k].y + (x[k].z * x[k].z + x[k].w * x[k].w);
        }
        sum = subgroupAdd(sum);
        if (SUBGROUP_LANE == 0u) p.partials.at[chunk] = sum;
    }
}
