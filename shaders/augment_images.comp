#include "kernel.h"
#include "augment.h"
#include "example.h"

FUNCTION float mean_grey(In_fixed64 sums, uint i, uint pixels) {
    float sum = 0.0f;
    for (uint chunk = i * GREY_CHUNKS; chunk < (i + 1u) * GREY_CHUNKS; ++chunk) {
        const uvec2 words = sums.at[chunk];
        sum += float(words.y) * 65536.0f + float(words.x) * (1.0f / 65536.0f);
    }
    return sum / float(pixels);
}

KERNEL(augment_images, AugmentImagesParams, 256) {
    const uint pixels = p.shape.out_height * p.shape.out_width;
    FOR_RANGE(item, p.count * pixels) {
        const uint i = item / pixels;
        const uint k = item % pixels;
        const Example example = example_at(p.examples, i);
        const vec4 box = p.draws.at[i * AUGMENT_DRAWS];
        const vec4 factors = p.draws.at[i * AUGMENT_DRAWS + 1u];
        const vec4 others = p.draws.at[i * AUGMENT_DRAWS + 2u];
        if (k == 0u) p.batch_labels.at[i] = example.label;

        Colour x = colour_at(p.records, example.slot, p.shape, box, others.x, k);
        if ((p.jitter & AUGMENT_BRIGHTNESS) != 0u) x = mixed(0.0f, x, factors.x);
        if ((p.jitter & AUGMENT_CONTRAST) != 0u) x = mixed(mean_grey(p.grey_sums, i, pixels), x, factors.y);
        if ((p.jitter & AUGMENT_SATURATION) != 0u) x = mixed(grey_of(x, p.shape.channels), x, factors.z);
        if ((p.jitter & AUGMENT_HUE) != 0u) x = turned(x, factors.w);
        x.r = (x.r - p.centre_r) * p.scale_r;
        x.g = (x.g - p.centre_g) * p.scale_g;
        x.b = (x.b - p.centre_b) * p.scale_b;

        // Unsigned differences: places before the square compare as far beyond it.
        const uint row = k / p.shape.out_width - uint(others.y);
        const uint column = k % p.shape.out_width - uint(others.z);
        const bool cut = row < p.cutout && column < p.cutout;
        if (p.shape.channels == 3u) {
            p.images.at[item * 3u] = cut ? 0.0f : x.r;
            p.images.at[item * 3u + 1u] = cut ? 0.0f : x.g;
            p.images.at[item * 3u + 2u] = cut ? 0.0f : x.b;
        } else {
            p.images.at[item] = cut ? 0.0f : x.r;
        }
    }
}
