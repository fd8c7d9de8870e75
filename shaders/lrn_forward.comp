#include "kernel.h"
#include "lrn.h"

KERNEL(lrn_forward, LrnForwardParams, 256) {
    const uint runs = LRN_RUNS(p.channels);
    FOR_RANGE(i, p.pixels * runs) {
        const uint base = i / runs * p.channels;
        const uint first = i % runs * LRN_RUN;
        const uint end = min(first + LRN_RUN, p.channels);
        float sum = 0.0f;
        const uint window_end = min(first + p.radius, p.channels);
        for (uint c = first - min(first, p.radius); c < window_end; ++c)
            sum += p.x.at[base + c] * p.x.at[base + c];
        for (uint c = first; c < end; ++c) {
            if (c + p.radius < p.channels) {
                const float entering = p.x.at[base + c + p.radius];
                sum += entering * entering;
            }
            const float scale = p.bias + p.alpha * sum;
            p.scale.at[base + c] = scale;
            p.y.at[base + c] = p.x.at[base + c] * lrn_power(scale, p.beta);
            if (c >= p.radius) {
                const float leaving = p.x.at[base + c - p.radius];
                const float rest = sum - leaving * leaving;
                sum = rest < 0.0f ? 0.0f : rest; // negative by rounding beside a large square
            }
        }
    }
}
