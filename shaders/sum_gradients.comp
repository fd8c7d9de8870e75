#include "kernel.h"

KERNEL(sum_gradients, SumGradientsParams, 256) {
    FOR_RANGE(i, p.quads) {
        vec4 sum = p.gradients[0].at[i];
        UNROLL for (uint tower = 1u; tower < SUMMED_TOWERS; ++tower)
            if (tower < p.towers) sum += p.gradients[tower].at[i];
        p.sum.at[i] = sum;
    }
}
