#include "kernel.h"
#include "average_pool.h"

// An item is an element of the output. The lanes of a subgroup divide the pixels of a large window;
// neighbouring subgroups take neighbouring channels.
KERNEL(average_pool_forward, AveragePoolForwardParams, 256) {
    const uint row_stride = p.shape.in_width * p.shape.channels;
    const uint items = p.shape.batch * p.shape.out_height * p.shape.out_width * p.shape.channels;
    if (p.shape.window_height * p.shape.window_width >= AVERAGE_POOL_SHARED) {
        FOR_SUBGROUPS(i, items) {
            const uint pixel = i / p.shape.channels;
            const uint row = pixel / p.shape.out_width % p.shape.out_height;
            const uint image = pixel / p.shape.out_width / p.shape.out_height;
            const AverageWindow window = average_window(p.shape, row, pixel % p.shape.out_width);
            const uint corner = (image * p.shape.in_height + window.top) * row_stride +
                                window.left * p.shape.channels + i % p.shape.channels;
            float sum = 0.0f;
            for (uint k = SUBGROUP_LANE; k < window.height * window.width; k += SUBGROUP_SIZE)
                sum += p.x.at[corner + k / window.width * row_stride + k % window.width * p.shape.channels];
            sum = subgroupAdd(sum);
            if (SUBGROUP_LANE == 0u) p.y.at[i] = sum / window.divisor;
        }
    } else {
        FOR_RANGE(i, items) {
            const uint pixel = i / p.shape.channels;
            const uint row = pixel / p.shape.out_width % p.shape.out_height;
            const uint image = pixel / p.shape.out_width / p.shape.out_height;
            const AverageWindow window = average_window(p.shape, row, pixel % p.shape.out_width);
            const uint corner = (image * p.shape.in_height + window.top) * row_stride +
                                window.left * p.shape.channels + i % p.shape.channels;
            float sum = 0.0f;
            for (uint y = 0u; y < window.height; ++y)
                for (uint x = 0u; x < window.width; ++x)
                    sum += p.x.at[corner + y * row_stride + x * p.shape.channels];
            p.y.at[i] = sum / window.divisor;
        }
    }
}
