#include "kernel.h"
#include "winograd.h"

KERNEL(winograd_weight_gradients, WinogradWeightGradientsParams, 256) {
    const uint points = p.points;
    const uint taps = p.taps;
    FOR_RANGE(i, p.in_channels * p.out_channels) {
        const uint in_channel = i / p.out_channels;
        const uint out_channel = i % p.out_channels;
        WinogradLine lines[WINOGRAD_PLACES];
        UNROLL for (uint x = 0u; x < WINOGRAD_PLACES; ++x) {
            WinogradLine column;
            UNROLL for (uint y = 0u; y < WINOGRAD_PLACES; ++y) {
                const uint row = (in_channel * points + winograd_number(y, points)) * points;
                column.at[y] = 0.0f;
                if (winograd_has(y, points) && winograd_has(x, points))
                    column.at[y] =
                        p.products.at[(row + winograd_number(x, points)) * p.out_channels + out_channel];
            }
            column = winograd_result_line(column, taps);
            UNROLL for (uint y = 0u; y < 5u; ++y) lines[y].at[x] = column.at[y];
        }
        UNROLL for (uint y = 0u; y < 5u; ++y) {
            const WinogradLine line = winograd_result_line(lines[y], taps);
            UNROLL for (uint x = 0u; x < 5u; ++x) {
                if (y < taps && x < taps)
                    p.dw.at[((y * taps + x) * p.in_channels + in_channel) * p.out_channels + out_channel] =
                        line.at[x];
            }
        }
    }
}
