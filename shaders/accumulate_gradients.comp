#include "kernel.h"

KERNEL(accumulate_gradients, AccumulateGradientsParams, 256) {
    FOR_RANGE(i, p.quads) {
        const vec4 sum = p.sum.at[i];
        p.sum.at[i] = sum + p.x.at[i];
    }
}
