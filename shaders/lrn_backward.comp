#include "kernel.h"
#include "lrn.h"
#include "vec4.h"

FUNCTION vec4 lrn_terms(In_f32 dy, In_f32 y, In_f32 scale, uint at) {
    return fast_quotient(load_vec4(dy, at) * load_vec4(y, at), load_vec4(scale, at));
}

KERNEL(lrn_backward, LrnBackwardParams, 256) {
    const float slope = 2.0f * p.alpha * p.beta;
    if (LRN_BY_VEC4(p.channels, p.radius)) {
        const uint row = p.channels / 4u;
        FOR_RANGE(i, p.pixels * p.channels / 4u) {
            const LrnNeighbours near = lrn_neighbours(i, row);
            const vec4 before = lrn_terms(p.dy, p.y, p.scale, near.before);
            const vec4 after = lrn_terms(p.dy, p.y, p.scale, near.after);
            const vec4 x = load_vec4(p.x, i);
            const vec4 dy = load_vec4(p.dy, i);
            const vec4 scale = load_vec4(p.scale, i);
            const vec4 own = fast_quotient(dy * load_vec4(p.y, i), scale);
            const vec4 sums = lrn_window_sums(near, before, own, after, p.radius);
            vec4 dx = dy * lrn_powers(scale, p.beta) - slope * x * sums;
            if (p.relu != 0u) dx = where_positive(x, dx);
            store_vec4(p.dx, i, dx);
        }
    } else {
        FOR_RANGE(i, p.pixels * p.channels) {
            const uint channel = i % p.channels;
            const uint first = i - min(channel, p.radius);
            const uint end = i - channel + min(channel + p.radius + 1u, p.channels);
            float sum = 0.0f;
            for (uint at = first; at < end; ++at) sum += p.dy.at[at] * p.y.at[at] / p.scale.at[at];
            const float x = p.x.at[i];
            const float dx = p.dy.at[i] * lrn_power(p.scale.at[i], p.beta) - slope * x * sum;
            p.dx.at[i] = p.relu != 0u && !(x > 0.0f) ? 0.0f : dx;
        }
    }
}
