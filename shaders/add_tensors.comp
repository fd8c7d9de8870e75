#include "kernel.h"

KERNEL(add_tensors, AddTensorsParams, 256) {
    FOR_RANGE(i, p.count) {
        float sum = p.x[0].at[i];
        UNROLL for (uint tensor = 1u; tensor < ADD_TENSORS; ++tensor)
            if (tensor < p.tensors) sum += p.x[tensor].at[i];
        if (p.masked != 0u) sum = p.mask.at[i] > 0.0f ? sum : 0.0f;
        p.y.at[i] = p.relu != 0u && sum < 0.0f ? 0.0f : sum;
    }
}
