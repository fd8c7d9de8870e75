#include "kernel.h"

KERNEL(copy_channels, CopyChannelsParams, 256) {
    FOR_RANGE(i, p.pixels * p.channels) {
        const uint pixel = i / p.channels;
        const uint channel = i % p.channels;
        p.y.at[pixel * p.target_stride + p.target_first + channel] =
            p.x.at[pixel * p.source_stride + p.source_first + channel];
    }
}
