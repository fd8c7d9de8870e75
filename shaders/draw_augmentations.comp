#include "kernel.h"
#include "example.h"
#include "philox.h"

FUNCTION float uniform_between(uint word, float low, float high) { return low + unit(word) * (high - low); }

// The root of four_squares / (4 by), rounded. The estimate may be off by the device's rounding, the comparisons
// are not.
FUNCTION uint rounded_side(float four_squares, float by) {
    uint side = uint(0.5f * sqrt(four_squares / by) + 0.5f);
    while (side > 0u && float(2u * side - 1u) * float(2u * side - 1u) * by > four_squares) --side;
    while (float(2u * side + 1u) * float(2u * side + 1u) * by <= four_squares) ++side;
    return side;
}

KERNEL(draw_augmentations, DrawAugmentationsParams, 256) {
    FOR_RANGE(i, p.count) {
        const Example example = example_at(p.examples, i);
        const Words place = philox(example.record, example.epoch, 0x100u, 0u, p.seed_low, p.seed_high);
        const Words light = philox(example.record, example.epoch, 0x101u, 0u, p.seed_low, p.seed_high);
        const Words cut = philox(example.record, example.epoch, 0x102u, 0u, p.seed_low, p.seed_high);

        float top = float(p.box_top);
        float left = float(p.box_left);
        uint height = p.box_height;
        uint width = p.box_width;
        if (p.box == AUGMENT_BOX_AREA) {
            bool found = false;
            for (uint attempt = 0u; attempt < 10u && !found; ++attempt) {
                const Words words = philox(example.record, example.epoch, 0x110u + attempt, 0u, p.seed_low, p.seed_high);
                const float four_areas = float(p.area_low + mul_high(words.a, p.area_span + 1u)) * p.area_unit;
                float aspect = p.aspect_low;
                float step = p.aspect_step;
                for (uint bit = 24u; bit < 32u; ++bit) {
                    if ((words.b >> bit & 1u) != 0u) aspect *= step;
                    step *= step;
                }
                const uint h = rounded_side(four_areas, aspect);
                const uint w = rounded_side(four_areas * aspect, 1.0f);
                found = h > 0u && w > 0u && h <= p.height && w <= p.width;
                if (found) {
                    height = h;
                    width = w;
                    top = float(mul_high(words.c, p.height - h + 1u));
                    left = float(mul_high(words.d, p.width - w + 1u));
                }
            }
        } else if (p.box == AUGMENT_BOX_PADDED) {
            const float pad = float(p.pad);
            top = float(mul_high(place.a, p.height + 2u * p.pad - p.out_height + 1u)) - pad;
            left = float(mul_high(place.b, p.width + 2u * p.pad - p.out_width + 1u)) - pad;
            height = p.out_height;
            width = p.out_width;
        }
        const uint at = i * AUGMENT_DRAWS;
        p.draws.at[at] = vec4(top, left, float(height), float(width));
        p.draws.at[at + 1u] = vec4(uniform_between(light.a, p.brightness_low, p.brightness_high),
                                   uniform_between(light.b, p.contrast_low, p.contrast_high),
                                   uniform_between(light.c, p.saturation_low, p.saturation_high),
                                   uniform_between(light.d, p.hue_low, p.hue_high));
        const float flip = p.flip != 0u && (place.c & 1u) != 0u ? 1.0f : 0.0f;
        p.draws.at[at + 2u] = vec4(flip, float(mul_high(cut.a, p.out_height - p.cutout + 1u)),
                                   float(mul_high(cut.b, p.out_width - p.cutout + 1u)), 0.0f);
    }
}
