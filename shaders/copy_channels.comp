#include "kernel.h"
#include "vec4.h"

KERNEL(copy_channels, CopyChannelsParams, 256) {
    FOR_RANGE(i, COPY_CHANNELS_ITEMS(p)) {
        if (COPY_CHANNELS_BY_VEC4(p)) {
            const uint quads = p.channels / 4u;
            const uint source = i / quads * (p.source_stride / 4u) + p.source_first / 4u + i % quads;
            const uint target = i / quads * (p.target_stride / 4u) + p.target_first / 4u + i % quads;
            store_vec4(p.y, target, load_vec4(p.x, source));
        } else {
            const uint pixel = i / p.channels;
            const uint channel = i % p.channels;
            p.y.at[pixel * p.target_stride + p.target_first + channel] =
                p.x.at[pixel * p.source_stride + p.source_first + channel];
        }
    }
}
