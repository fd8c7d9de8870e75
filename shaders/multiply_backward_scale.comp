#include "kernel.h"
#include "vec4.h"

// A subgroup sums over one image's pixels for four channels; its neighbours take the neighbouring channels.
KERNEL(multiply_backward_scale, MultiplyBackwardScaleParams, 256) {
    const uint quads = QUADS_OF(p.channels);
    FOR_SUBGROUPS(i, p.batch * quads) {
        const uint image = i / quads;
        vec4 sum = vec4(0.0f);
        for (uint pixel = SUBGROUP_LANE; pixel < p.pixels; pixel += SUBGROUP_SIZE) {
            const uint at = image * p.pixels + pixel;
            sum += channels_at(p.dy, p.channels, at, i % quads) * channels_at(p.a, p.channels, at, i % quads);
        }
        sum = subgroupAdd(sum);
        if (SUBGROUP_LANE == 0u) set_channels(p.db, p.channels, image, i % quads, sum);
    }
}
