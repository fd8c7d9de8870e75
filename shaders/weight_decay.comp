#include "kernel.h"
#include "reduction.h"

KERNEL(weight_decay, WeightDecayParams, 256) {
    FOR_SUBGROUPS(chunk, REDUCTION_CHUNKS(p.quads)) {
        float sum = 0.0f;
        FOR_CHUNK(i, p.quads, chunk) {
            vec4 w[QUADS_IN_FLIGHT];
            vec4 dw[QUADS_IN_FLIGHT];
            FOR_QUADS_IN_FLIGHT(k) {
                w[k] = p.w.at[QUAD_IN_FLIGHT(i, k)];
                dw[k] = p.dw.at[QUAD_IN_FLIGHT(i, k)];
            }
            FOR_QUADS_IN_FLIGHT(k) if (IS_IN_CHUNK(i, k)) {
                p.dw.at[i + k * SUBGROUP_SIZE] = dw[k] + p.decay * w[k];
                sum += w[k].x * w[k].x + w[k].y * w[k].y + (w[k].z * w[k].z + w[k].w * w[k].w);
            }
        }
        sum = subgroupAdd(sum);
        if (SUBGROUP_LANE == 0u) p.partials.at[chunk] = 0.5f * p.decay * sum;
    }
}
