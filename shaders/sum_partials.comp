#include "kernel.h"

KERNEL(sum_partials, SumPartialsParams, 256) {
    FOR_RANGE(i, p.count) {
        float sum = 0.0f;
        for (uint part = 0; part < p.parts; ++part) sum += p.partials.at[part * p.count + i];
        p.sum.at[i] = sum;
    }
}
