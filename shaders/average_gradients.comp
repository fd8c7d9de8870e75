#include "kernel.h"

KERNEL(average_gradients, AverageGradientsParams, 256) {
    FOR_RANGE(i, p.quads) {
        vec4 sum = p.weight[0] * p.gradients[0].at[i];
        UNROLL for (uint tower = 1u; tower < AVERAGE_TOWERS; ++tower)
            if (tower < p.towers) sum += p.weight[tower] * p.gradients[tower].at[i];
        p.mean.at[i] = sum;
    }
}
