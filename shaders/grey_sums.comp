#include "kernel.h"
#include "augment.h"
#include "example.h"
#include "wide.h"

// A subgroup takes one chunk of one image. The sums are of whole numbers, so they are exact in any order.
KERNEL(grey_sums, GreySumsParams, 256) {
    FOR_SUBGROUPS(item, p.count * GREY_CHUNKS) {
        const uint i = item / GREY_CHUNKS;
        const uint slot = example_at(p.examples, i).slot;
        const vec4 box = p.draws.at[i * AUGMENT_DRAWS];
        const float brightness = p.draws.at[i * AUGMENT_DRAWS + 1u].x;
        const float flip = p.draws.at[i * AUGMENT_DRAWS + 2u].x;
        const uint pixels = p.shape.out_height * p.shape.out_width;
        const uint end = pixels * (item % GREY_CHUNKS + 1u) / GREY_CHUNKS;
        Wide sum = wide_zero();
        for (uint k = pixels * (item % GREY_CHUNKS) / GREY_CHUNKS + SUBGROUP_LANE; k < end;
             k += SUBGROUP_SIZE) {
            const Colour x = mixed(0.0f, colour_at(p.records, slot, p.shape, box, flip, k), brightness);
            sum = wide_plus(sum, uint(grey_of(x, p.shape.channels) * 65536.0f + 0.5f));
        }
        sum = wide_subgroup_sum(sum);
        if (SUBGROUP_LANE == 0u) p.sums.at[item] = uvec2(sum.low, sum.high);
    }
}
