#include "kernel.h"
#include "average_pool.h"
#include "vec4.h"

#define PIXELS_OF_A_PART 64u // of a lane, so that rounding errors do not accumulate

// An item is four channels of an output pixel. The lanes of a subgroup divide the pixels of a large window;
// neighbouring subgroups take neighbouring channels.
KERNEL(average_pool_forward, AveragePoolForwardParams, 256) {
    const uint quads = QUADS_OF(p.shape.channels);
    const uint items = p.shape.batch * p.shape.out_height * p.shape.out_width * quads;
    if (p.shape.window_height * p.shape.window_width >= AVERAGE_POOL_SHARED) {
        FOR_SUBGROUPS(i, items) {
            const uint pixel = i / quads;
            const uint row = pixel / p.shape.out_width % p.shape.out_height;
            const uint image = pixel / p.shape.out_width / p.shape.out_height;
            const AverageWindow window = average_window(p.shape, row, pixel % p.shape.out_width);
            const uint corner = (image * p.shape.in_height + window.top) * p.shape.in_width + window.left;
            const uint pixels = window.height * window.width;
            vec4 sum = vec4(0.0f);
            for (uint first = SUBGROUP_LANE; first < pixels; first += PIXELS_OF_A_PART * SUBGROUP_SIZE) {
                const uint end = min(first + PIXELS_OF_A_PART * SUBGROUP_SIZE, pixels);
                vec4 part = vec4(0.0f);
                for (uint k = first; k < end; k += SUBGROUP_SIZE) {
                    const uint from = corner + k / window.width * p.shape.in_width + k % window.width;
                    part += channels_at(p.x, p.shape.channels, from, i % quads);
                }
                sum += part;
            }
            sum = subgroupAdd(sum);
            if (SUBGROUP_LANE == 0u)
                set_channels(p.y, p.shape.channels, pixel, i % quads, sum / window.divisor);
        }
    } else {
        FOR_RANGE(i, items) {
            const uint pixel = i / quads;
            const uint row = pixel / p.shape.out_width % p.shape.out_height;
            const uint image = pixel / p.shape.out_width / p.shape.out_height;
            const AverageWindow window = average_window(p.shape, row, pixel % p.shape.out_width);
            const uint corner = (image * p.shape.in_height + window.top) * p.shape.in_width + window.left;
            vec4 sum = vec4(0.0f);
            for (uint y = 0u; y < window.height; ++y)
                for (uint x = 0u; x < window.width; ++x)
                    sum += channels_at(p.x, p.shape.channels, corner + y * p.shape.in_width + x, i % quads);
            set_channels(p.y, p.shape.channels, pixel, i % quads, sum / window.divisor);
        }
    }
}
