#include "../kernel.h"
#include "../conv_output.h"

KERNEL(sum_partials, SumPartialsParams, 256) {
    const bool padded = p.padded_channels != 0u;
    const uint part_count =
        padded ? p.count / (p.rows * p.channels) * p.padded_rows * p.padded_channels : p.count;
    FOR_RANGE(i, p.count) {
        uint at = i;
        if (padded) {
            const uint row = i / p.channels;
            at = (row / p.rows * p.padded_rows + row % p.rows) * p.padded_channels + i % p.channels;
        }
        float sum = 0.0f;
        for (uint part = 0; part < p.parts; ++part) sum += p.partials.at[part * part_count + at];
        if (p.bias != 0u) sum += p.b.at[i % p.channels];
        if (p.masked != 0u) sum = p.x.at[i] > 0.0f ? sum : 0.0f;
        p.sum.at[i] = activate(sum, p.relu);
    }
}
