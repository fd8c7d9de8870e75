#include "kernel.h"

// A subgroup takes one chunk.
KERNEL(weight_decay, WeightDecayParams, 256) {
    FOR_SUBGROUPS(chunk, REDUCTION_CHUNKS(p.quads)) {
        const uint end = REDUCTION_BEGIN(p.quads, chunk + 1u);
        float sum = 0.0f;
        for (uint i = REDUCTION_BEGIN(p.quads, chunk) + SUBGROUP_LANE; i < end; i += SUBGROUP_SIZE) {
            const vec4 w = p.w.at[i];
            const vec4 dw = p.dw.at[i];
            p.dw.at[i] = dw + p.decay * w;
            sum += w.x * w.x + w.y * w.y + (w.z * w.z + w.w * w.w);
        }
        sum = subgroupAdd(sum);
        if (SUBGROUP_LANE == 0u) p.partials.at[chunk] = 0.5f * p.decay * sum;
    }
}
