#include "kernel.h"

// An item is four channels of an output pixel, so that their places in the window fill one word.
KERNEL(max_pool_forward, MaxPoolForwardParams, 256) {
    const uint quads = QUADS_OF(p.shape.channels);
    FOR_RANGE(i, p.shape.batch * p.shape.out_height * p.shape.out_width * quads) {
        const uint quad = i % quads;
        const uint pixel = i / quads;
        const uint column = pixel % p.shape.out_width;
        const uint row = pixel / p.shape.out_width % p.shape.out_height;
        const uint image = pixel / p.shape.out_width / p.shape.out_height;
        const uint lanes = min(4u, p.shape.channels - quad * 4u);
        uint places = 0u;
        for (uint lane = 0u; lane < lanes; ++lane) {
            const uint channel = quad * 4u + lane;
            float best = 0.0f;
            uint place = 0u;
            bool found = false;
            for (uint ky = 0u; ky < p.shape.window_height; ++ky) {
                for (uint kx = 0u; kx < p.shape.window_width; ++kx) {
                    // By unsigned wrap-around, places above and left of the image compare as beyond its end.
                    const uint y = row * p.shape.stride_y + ky - p.shape.pad_top;
                    const uint x = column * p.shape.stride_x + kx - p.shape.pad_left;
                    if (y < p.shape.in_height && x < p.shape.in_width) {
                        const float value =
                            p.x.at[((image * p.shape.in_height + y) * p.shape.in_width + x) * p.shape.channels +
                                   channel];
                        // A NaN counts as the maximum, so that divergence shows.
                        if (!found || value > best || value != value) {
                            best = value;
                            place = ky * p.shape.window_width + kx;
                            found = true;
                        }
                    }
                }
            }
            p.y.at[pixel * p.shape.channels + channel] = best;
            places |= place << (8u * lane);
        }
        p.argmax.at[i] = places;
    }
}
