#include "kernel.h"
#include "workgroup.h"

// One workgroup adds up the partial sums, which are few.
KERNEL(gradient_norm, GradientNormParams, 256) {
    FOR_WORKGROUPS(once, 1u) {
        float sum = 0.0f;
        for (uint i = LOCAL_ID; i < p.count; i += WORKGROUP_SIZE) sum += p.squares.at[i];
        sum = workgroupAdd(vec4(sum, 0.0f, 0.0f, 0.0f)).x;
        if (LOCAL_ID == 0u) p.norm.at[0] = sqrt(sum);
    }
}
