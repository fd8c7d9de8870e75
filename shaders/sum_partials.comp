#include "kernel.h"
#include "conv_output.h"

KERNEL(sum_partials, SumPartialsParams, 256) {
    FOR_RANGE(i, p.count) {
        float sum = 0.0f;
        for (uint part = 0; part < p.parts; ++part) sum += p.partials.at[part * p.count + i];
        if (p.bias != 0u) sum += p.b.at[i % p.channels];
        if (p.masked != 0u) sum = p.x.at[i] > 0.0f ? sum : 0.0f;
        p.sum.at[i] = activate(sum, p.relu);
    }
}
