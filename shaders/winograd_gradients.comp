#include "kernel.h"
#include "winograd.h"

KERNEL(winograd_gradients, WinogradGradientsParams, 256) {
    const uint points = p.tiles.points;
    const uint channels = p.tiles.channels;
    const uint side = p.tiles.step;
    const vec4 scales = winograd_scales(points);
    FOR_RANGE(i, WINOGRAD_TILES(p.tiles) * channels) {
        const uint channel = i % channels;
        const WinogradCorner corner = winograd_corner(i / channels, p.tiles);
        WinogradLine lines[WINOGRAD_PLACES];
        UNROLL for (uint x = 0u; x < 5u; ++x) {
            WinogradLine column;
            UNROLL for (uint y = 0u; y < 5u; ++y) {
                const bool there = y < side && x < side && winograd_is_pixel(corner, y, x, p.tiles);
                column.at[y] = 0.0f;
                if (there) column.at[y] = p.dy.at[winograd_pixel(corner, y, x, p.tiles) * channels + channel];
            }
            column = winograd_weight_line(column, side, scales);
            UNROLL for (uint y = 0u; y < WINOGRAD_PLACES; ++y) lines[y].at[x] = column.at[y];
        }
        UNROLL for (uint y = 0u; y < WINOGRAD_PLACES; ++y) {
            const WinogradLine line = winograd_weight_line(lines[y], side, scales);
            const uint row = (i / channels * points + winograd_number(y, points)) * points;
            UNROLL for (uint x = 0u; x < WINOGRAD_PLACES; ++x) {
                if (winograd_has(y, points) && winograd_has(x, points))
                    p.v.at[(row + winograd_number(x, points)) * channels + channel] = line.at[x];
            }
        }
    }
}
