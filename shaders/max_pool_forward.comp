#include "kernel.h"
#include "vec4.h"

// So many pixels of a window's row are loaded before one is compared; most windows are 2 or 3 wide.
#define PIXELS_IN_FLIGHT 3u

// A NaN counts as the maximum, so that divergence shows.
FUNCTION bool beats(float value, float best) { return value > best || value != value; }

// An item is four channels of an output pixel, so that their places in the window fill one word.
KERNEL(max_pool_forward, MaxPoolForwardParams, 256) {
    const uint quads = QUADS_OF(p.shape.channels);
    FOR_RANGE(i, p.shape.batch * p.shape.out_height * p.shape.out_width * quads) {
        const uint quad = i % quads;
        const uint pixel = i / quads;
        // The window's first row and column, of which padding may hide some, and its end within the image
        const uint y = pixel / p.shape.out_width % p.shape.out_height * p.shape.stride_y;
        const uint x = pixel % p.shape.out_width * p.shape.stride_x;
        const uint image = pixel / p.shape.out_width / p.shape.out_height;
        const uint first_row = p.shape.pad_top - min(p.shape.pad_top, y);
        const uint first_column = p.shape.pad_left - min(p.shape.pad_left, x);
        const uint end_row = min(p.shape.window_height, p.shape.in_height + p.shape.pad_top - y);
        const uint end_column = min(p.shape.window_width, p.shape.in_width + p.shape.pad_left - x);
        const uint corner =
            (image * p.shape.in_height + y - p.shape.pad_top) * p.shape.in_width + x - p.shape.pad_left;
        const uint first_place = first_row * p.shape.window_width + first_column;
        vec4 best =
            channels_at(p.x, p.shape.channels, corner + first_row * p.shape.in_width + first_column, quad);
        uvec4 places = uvec4(first_place);
        for (uint row = first_row; row < end_row; ++row) {
            for (uint next = first_column; next < end_column; next += PIXELS_IN_FLIGHT) {
                vec4 values[PIXELS_IN_FLIGHT];
                UNROLL for (uint k = 0u; k < PIXELS_IN_FLIGHT; ++k) values[k] =
                    channels_at(p.x, p.shape.channels,
                                corner + row * p.shape.in_width + min(next + k, end_column - 1u), quad);
                UNROLL for (uint k = 0u; k < PIXELS_IN_FLIGHT; ++k) {
                    const uint place = row * p.shape.window_width + min(next + k, end_column - 1u);
                    const bool a = beats(values[k].x, best.x);
                    const bool b = beats(values[k].y, best.y);
                    const bool c = beats(values[k].z, best.z);
                    const bool d = beats(values[k].w, best.w);
                    best = vec4(a ? values[k].x : best.x, b ? values[k].y : best.y, c ? values[k].z : best.z,
                                d ? values[k].w : best.w);
                    places = uvec4(a ? place : places.x, b ? place : places.y, c ? place : places.z,
                                   d ? place : places.w);
                }
            }
        }
        set_channels(p.y, p.shape.channels, pixel, quad, best);
        const uint lanes = min(4u, p.shape.channels - quad * 4u);
        const uint word = places.x | places.y << 8u | places.z << 16u | places.w << 24u;
        p.argmax.at[i] = word & 0xffffffffu >> (32u - 8u * lanes); // 0 for channels that do not exist
    }
}
