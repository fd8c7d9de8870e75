#ifndef TOWERS_SHADERS_VEC4_H
#define TOWERS_SHADERS_VEC4_H

// Elements 4 i to 4 i + 3 of a tensor, in one access
FUNCTION vec4 load_vec4(In_f32 x, uint i) {
#if defined(TOWERS_GLSL) || defined(__CUDACC__)
    return in_quads(x).at[i];
#else // GCC 12 vectorizes no loop that copies a vec4
    const float* const from = x.at + std::size_t(4) * i;
    return vec4(from[0], from[1], from[2], from[3]);
#endif
}

FUNCTION void store_vec4(Out_f32 y, uint i, vec4 values) {
#if defined(TOWERS_GLSL) || defined(__CUDACC__)
    out_quads(y).at[i] = values;
#else
    float* const to = y.at + std::size_t(4) * i;
    to[0] = values.x;
    to[1] = values.y;
    to[2] = values.z;
    to[3] = values.w;
#endif
}

// Four channels of a pixel, from channel 4 quad on: in one access if pixels consist of whole vec4s. Channels
// that a pixel does not have are 0 and are not written. A kernel may take any tensor for one pixel, or
// several.
FUNCTION vec4 channels_at(In_f32 x, uint channels, uint pixel, uint quad) {
    if (channels % 4u == 0u) return load_vec4(x, pixel * (channels / 4u) + quad);
    const uint first = pixel * channels + quad * 4u;
    const uint lanes = channels - quad * 4u;
    vec4 values = vec4(0.0f);
    values.x = x.at[first];
    if (lanes > 1u) values.y = x.at[first + 1u];
    if (lanes > 2u) values.z = x.at[first + 2u];
    if (lanes > 3u) values.w = x.at[first + 3u];
    return values;
}

FUNCTION void set_channels(Out_f32 y, uint channels, uint pixel, uint quad, vec4 values) {
    if (channels % 4u == 0u) {
        store_vec4(y, pixel * (channels / 4u) + quad, values);
    } else {
        const uint first = pixel * channels + quad * 4u;
        const uint lanes = channels - quad * 4u;
        y.at[first] = values.x;
        if (lanes > 1u) y.at[first + 1u] = values.y;
        if (lanes > 2u) y.at[first + 2u] = values.z;
        if (lanes > 3u) y.at[first + 3u] = values.w;
    }
}

// A ReLU. A NaN stays one.
FUNCTION vec4 relu_of(vec4 x) {
    return vec4(x.x < 0.0f ? 0.0f : x.x, x.y < 0.0f ? 0.0f : x.y, x.z < 0.0f ? 0.0f : x.z,
                x.w < 0.0f ? 0.0f : x.w);
}

// A ReLU's gradient: `values` where `mask` is above zero, else 0
FUNCTION vec4 where_positive(vec4 mask, vec4 values) {
    return vec4(mask.x > 0.0f ? values.x : 0.0f, mask.y > 0.0f ? values.y : 0.0f,
                mask.z > 0.0f ? values.z : 0.0f, mask.w > 0.0f ? values.w : 0.0f);
}

#endif
