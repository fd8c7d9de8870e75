#include "kernel.h"
#include "winograd.h"

KERNEL(winograd_weights, WinogradWeightsParams, 256) {
    const uint points = p.points;
    const uint taps = p.taps;
    const uint columns = p.mirrored != 0u ? p.in_channels : p.out_channels;
    const uint tap_weights = p.in_channels * p.out_channels;
    const uint next_tap = p.mirrored != 0u ? 0u - tap_weights : tap_weights; // by unsigned wrap-around
    const vec4 scales = winograd_scales(points);
    FOR_RANGE(i, tap_weights) {
        const uint turned = (taps * taps - 1u) * tap_weights + i % columns * p.out_channels + i / columns;
        const uint first = p.mirrored != 0u ? turned : i;
        WinogradLine lines[WINOGRAD_PLACES];
        UNROLL for (uint x = 0u; x < 5u; ++x) {
            WinogradLine column;
            UNROLL for (uint y = 0u; y < 5u; ++y) {
                column.at[y] = 0.0f;
                if (y < taps && x < taps) column.at[y] = p.w.at[first + (y * taps + x) * next_tap];
            }
            column = winograd_weight_line(column, taps, scales);
            UNROLL for (uint y = 0u; y < WINOGRAD_PLACES; ++y) lines[y].at[x] = column.at[y];
        }
        UNROLL for (uint y = 0u; y < WINOGRAD_PLACES; ++y) {
            const WinogradLine line = winograd_weight_line(lines[y], taps, scales);
            const uint row = (i / columns * points + winograd_number(y, points)) * points;
            UNROLL for (uint x = 0u; x < WINOGRAD_PLACES; ++x) {
                if (winograd_has(y, points) && winograd_has(x, points))
                    p.u.at[(row + winograd_number(x, points)) * columns + i % columns] = line.at[x];
            }
        }
    }
}
