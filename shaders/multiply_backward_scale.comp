#include "kernel.h"

// A subgroup sums over one image's pixels for one channel; its neighbours take the neighbouring channels.
KERNEL(multiply_backward_scale, MultiplyBackwardScaleParams, 256) {
    FOR_SUBGROUPS(i, p.batch * p.channels) {
        const uint base = i / p.channels * p.pixels * p.channels + i % p.channels;
        float sum = 0.0f;
        for (uint pixel = SUBGROUP_LANE; pixel < p.pixels; pixel += SUBGROUP_SIZE) {
            const uint at = base + pixel * p.channels;
            sum += p.dy.at[at] * p.a.at[at];
        }
        sum = subgroupAdd(sum);
        if (SUBGROUP_LANE == 0u) p.db.at[i] = sum;
    }
}
