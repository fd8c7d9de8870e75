#include "kernel.h"
#include "lrn.h"
#include "vec4.h"

FUNCTION vec4 lrn_squares(In_f32 x, uint at) {
    const vec4 values = load_vec4(x, at);
    return values * values;
}

KERNEL(lrn_forward, LrnForwardParams, 256) {
    if (LRN_BY_VEC4(p.channels, p.radius)) {
        const uint row = p.channels / 4u;
        FOR_RANGE(i, p.pixels * p.channels / 4u) {
            const LrnNeighbours near = lrn_neighbours(i, row);
            const vec4 before = lrn_squares(p.x, near.before);
            const vec4 after = lrn_squares(p.x, near.after);
            const vec4 x = load_vec4(p.x, i);
            const vec4 scale = p.bias + p.alpha * lrn_window_sums(near, before, x * x, after, p.radius);
            store_vec4(p.scale, i, scale);
            store_vec4(p.y, i, x * lrn_powers(scale, p.beta));
        }
    } else {
        FOR_RANGE(i, p.pixels * p.channels) {
            const uint channel = i % p.channels;
            const uint first = i - min(channel, p.radius);
            const uint end = i - channel + min(channel + p.radius + 1u, p.channels);
            float sum = 0.0f;
            for (uint at = first; at < end; ++at) sum += p.x.at[at] * p.x.at[at];
            const float scale = p.bias + p.alpha * sum;
            p.scale.at[i] = scale;
            p.y.at[i] = p.x.at[i] * lrn_power(scale, p.beta);
        }
    }
}
