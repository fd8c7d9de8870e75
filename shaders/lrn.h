#ifndef TOWERS_SHADERS_LRN_H
#define TOWERS_SHADERS_LRN_H

// Local response normalization: what its two kernels share
FUNCTION float lrn_power(float scale, float beta) {
    // The tutorial's beta, without the two transcendentals of pow()
    if (beta == 0.75f) {
        const float r = inversesqrt(scale);
        return r * fast_sqrt(r);
    }
    return pow(scale, -beta);
}

FUNCTION vec4 lrn_powers(vec4 scale, float beta) {
    if (beta == 0.75f) {
        const vec4 r = inversesqrt(scale);
        return r * vec4(fast_sqrt(r.x), fast_sqrt(r.y), fast_sqrt(r.z), fast_sqrt(r.w));
    }
    return vec4(pow(scale.x, -beta), pow(scale.y, -beta), pow(scale.z, -beta), pow(scale.w, -beta));
}

// Where the four channels before and after the `i`th four lie; where there are none, in a row of `row` fours,
// the place is the own one, which can be read without a branch.
struct LrnNeighbours {
    uint before, after;
    bool has_before, has_after;
};

FUNCTION LrnNeighbours lrn_neighbours(uint i, uint row) {
    LrnNeighbours near;
    near.has_before = i % row > 0u;
    near.has_after = i % row + 1u < row;
    near.before = near.has_before ? i - 1u : i;
    near.after = near.has_after ? i + 1u : i;
    return near;
}

// For each of four channels the sum over its window, from the values of these channels and of their
// neighbours. As nothing is subtracted, a large value leaves no trace in windows that it is not in.
FUNCTION vec4 lrn_window_sums(LrnNeighbours near, vec4 before, vec4 own, vec4 after, uint radius) {
    const vec4 b = near.has_before ? before : vec4(0.0f);
    const vec4 a = near.has_after ? after : vec4(0.0f);
    vec4 sums = own;
    if (radius > 0u) sums += vec4(b.w, own.x, own.y, own.z) + vec4(own.y, own.z, own.w, a.x);
    if (radius > 1u) sums += vec4(b.z, b.w, own.x, own.y) + vec4(own.z, own.w, a.x, a.y);
    if (radius > 2u) sums += vec4(b.y, b.z, b.w, own.x) + vec4(own.w, a.x, a.y, a.z);
    if (radius > 3u) sums += b + a;
    return sums;
}

#endif
