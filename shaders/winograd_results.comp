#include "kernel.h"
#include "conv_output.h"
#include "winograd.h"

KERNEL(winograd_results, WinogradResultsParams, 256) {
    const uint points = p.tiles.points;
    const uint channels = p.tiles.channels;
    const uint side = p.tiles.step;
    FOR_RANGE(i, WINOGRAD_TILES(p.tiles) * channels) {
        const uint channel = i % channels;
        const WinogradCorner corner = winograd_corner(i / channels, p.tiles);
        const float bias = p.bias != 0u ? p.b.at[channel] : 0.0f;
        WinogradLine lines[WINOGRAD_PLACES];
        UNROLL for (uint x = 0u; x < WINOGRAD_PLACES; ++x) {
            WinogradLine column;
            UNROLL for (uint y = 0u; y < WINOGRAD_PLACES; ++y) {
                const uint row = (i / channels * points + winograd_number(y, points)) * points;
                column.at[y] = 0.0f;
                if (winograd_has(y, points) && winograd_has(x, points))
                    column.at[y] = p.products.at[(row + winograd_number(x, points)) * channels + channel];
            }
            column = winograd_result_line(column, side);
            UNROLL for (uint y = 0u; y < 5u; ++y) lines[y].at[x] = column.at[y];
        }
        UNROLL for (uint y = 0u; y < 4u; ++y) {
            const WinogradLine line = winograd_result_line(lines[y], side);
            UNROLL for (uint x = 0u; x < 4u; ++x) {
                const uint at = winograd_pixel(corner, y, x, p.tiles) * channels + channel;
                float value = line.at[x] + bias;
                if (y < side && x < side && winograd_is_pixel(corner, y, x, p.tiles)) {
                    if (p.masked != 0u) value = p.mask.at[at] > 0.0f ? value : 0.0f;
                    p.y.at[at] = activate(value, p.relu);
                }
            }
        }
    }
}
