#include "kernel.h"
#include "vec4.h"

KERNEL(add_tensors, AddTensorsParams, 256) {
    if (p.count % 4u == 0u) {
        FOR_RANGE(i, p.count / 4u) {
            vec4 sum = load_vec4(p.x[0], i);
            UNROLL for (uint tensor = 1u; tensor < ADD_TENSORS; ++tensor)
                if (tensor < p.tensors) sum += load_vec4(p.x[tensor], i);
            if (p.masked != 0u) sum = where_positive(load_vec4(p.mask, i), sum);
            if (p.relu != 0u) sum = relu_of(sum);
            store_vec4(p.y, i, sum);
        }
    } else {
        FOR_RANGE(i, p.count) {
            float sum = p.x[0].at[i];
            UNROLL for (uint tensor = 1u; tensor < ADD_TENSORS; ++tensor)
                if (tensor < p.tensors) sum += p.x[tensor].at[i];
            if (p.masked != 0u) sum = p.mask.at[i] > 0.0f ? sum : 0.0f;
            p.y.at[i] = p.relu != 0u && sum < 0.0f ? 0.0f : sum;
        }
    }
}
