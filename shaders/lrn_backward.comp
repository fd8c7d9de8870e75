#include "kernel.h"
#include "lrn.h"

FUNCTION float lrn_term(In_f32 dy, In_f32 y, In_f32 scale, uint at) {
    return dy.at[at] * y.at[at] / scale.at[at];
}

KERNEL(lrn_backward, LrnBackwardParams, 256) {
    const uint runs = LRN_RUNS(p.channels);
    FOR_RANGE(i, p.pixels * runs) {
        const uint base = i / runs * p.channels;
        const uint first = i % runs * LRN_RUN;
        const uint end = min(first + LRN_RUN, p.channels);
        float sum = 0.0f;
        const uint window_end = min(first + p.radius, p.channels);
        for (uint c = first - min(first, p.radius); c < window_end; ++c) sum += lrn_term(p.dy, p.y, p.scale, base + c);
        for (uint c = first; c < end; ++c) {
            if (c + p.radius < p.channels) sum += lrn_term(p.dy, p.y, p.scale, base + c + p.radius);
            const float x = p.x.at[base + c];
            const float dx = p.dy.at[base + c] * lrn_power(p.scale.at[base + c], p.beta) -
                             2.0f * p.alpha * p.beta * x * sum;
            p.dx.at[base + c] = p.relu != 0u && !(x > 0.0f) ? 0.0f : dx;
            if (c >= p.radius) sum -= lrn_term(p.dy, p.y, p.scale, base + c - p.radius);
        }
    }
}
