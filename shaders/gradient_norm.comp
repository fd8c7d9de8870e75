#include "kernel.h"

// One subgroup adds up the partial sums, which are few.
KERNEL(gradient_norm, GradientNormParams, 256) {
    FOR_SUBGROUPS(once, 1u) {
        float sum = 0.0f;
        for (uint i = SUBGROUP_LANE; i < p.count; i += SUBGROUP_SIZE) sum += p.squares.at[i];
        sum = subgroupAdd(sum);
        if (SUBGROUP_LANE == 0u) p.norm.at[0] = sqrt(sum);
    }
}
