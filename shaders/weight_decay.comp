#include "kernel.h"

KERNEL(weight_decay, WeightDecayParams, 256) {
    FOR_RANGE(chunk, REDUCTION_CHUNKS(p.quads)) {
        const uint end = REDUCTION_BEGIN(p.quads, chunk / REDUCTION_LANES + 1u);
        float sum = 0.0f;
        for (uint block = REDUCTION_BEGIN(p.quads, chunk / REDUCTION_LANES); block < end; ++block) {
            for (uint k = 0u; k < REDUCTION_DEPTH; ++k) {
                const uint i = block * REDUCTION_BLOCK + k * REDUCTION_LANES + chunk % REDUCTION_LANES;
                if (i < p.quads) {
                    const vec4 w = p.w.at[i];
                    const vec4 dw = p.dw.at[i];
                    p.dw.at[i] = dw + p.decay * w;
                    sum += w.x * w.x + w.y * w.y + (w.z * w.z + w.w * w.w);
                }
            }
        }
        p.partials.at[chunk] = 0.5f * p.decay * sum;
    }
}
