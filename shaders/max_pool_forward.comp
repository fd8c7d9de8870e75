#include "kernel.h"
#include "vec4.h"

// A NaN counts as the maximum, so that divergence shows.
FUNCTION bool beats(float value, float best) { return value > best || value != value; }

// An item is four channels of an output pixel, so that their places in the window fill one word.
KERNEL(max_pool_forward, MaxPoolForwardParams, 256) {
    const uint quads = QUADS_OF(p.shape.channels);
    FOR_RANGE(i, p.shape.batch * p.shape.out_height * p.shape.out_width * quads) {
        const uint quad = i % quads;
        const uint pixel = i / quads;
        const uint column = pixel % p.shape.out_width;
        const uint row = pixel / p.shape.out_width % p.shape.out_height;
        const uint image = pixel / p.shape.out_width / p.shape.out_height;
        vec4 best = vec4(0.0f);
        uvec4 places = uvec4(0u);
        bool found = false;
        for (uint ky = 0u; ky < p.shape.window_height; ++ky) {
            for (uint kx = 0u; kx < p.shape.window_width; ++kx) {
                // By unsigned wrap-around, places above and left of the image compare as beyond its end.
                const uint y = row * p.shape.stride_y + ky - p.shape.pad_top;
                const uint x = column * p.shape.stride_x + kx - p.shape.pad_left;
                if (y < p.shape.in_height && x < p.shape.in_width) {
                    const uint from = (image * p.shape.in_height + y) * p.shape.in_width + x;
                    const vec4 values = channels_at(p.x, p.shape.channels, from, quad);
                    const uint place = ky * p.shape.window_width + kx;
                    const bool a = !found || beats(values.x, best.x);
                    const bool b = !found || beats(values.y, best.y);
                    const bool c = !found || beats(values.z, best.z);
                    const bool d = !found || beats(values.w, best.w);
                    best = vec4(a ? values.x : best.x, b ? values.y : best.y, c ? values.z : best.z,
                                d ? values.w : best.w);
                    places = uvec4(a ? place : places.x, b ? place : places.y, c ? place : places.z,
                                   d ? place : places.w);
                    found = true;
                }
            }
        }
        set_channels(p.y, p.shape.channels, pixel, quad, best);
        const uint lanes = min(4u, p.shape.channels - quad * 4u);
        const uint word = places.x | places.y << 8u | places.z << 16u | places.w << 24u;
        p.argmax.at[i] = word & 0xffffffffu >> (32u - 8u * lanes); // 0 for channels that do not exist
    }
}
