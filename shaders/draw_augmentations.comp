#include "kernel.h"
#include "example.h"
#include "philox.h"
#include "random_box.h"

FUNCTION float uniform_between(uint word, float low, float high) { return low + unit(word) * (high - low); }

KERNEL(draw_augmentations, DrawAugmentationsParams, 256) {
    FOR_RANGE(i, p.count) {
        const Example example = example_at(p.examples, i);
        const Words place = philox(example.record, example.epoch, 0x100u, 0u, p.seed_low, p.seed_high);
        const Words light = philox(example.record, example.epoch, 0x101u, 0u, p.seed_low, p.seed_high);
        const Words cut = philox(example.record, example.epoch, 0x102u, 0u, p.seed_low, p.seed_high);

        uint height = p.box_height;
        uint width = p.box_width;
        float top = float((p.height - height) / 2u);
        float left = float((p.width - width) / 2u);
        if (p.box == AUGMENT_BOX_AREA) {
            bool found = false;
            for (uint attempt = 0u; attempt < 10u && !found; ++attempt) {
                const Words words =
                    philox(example.record, example.epoch, 0x110u + attempt, 0u, p.seed_low, p.seed_high);
                const float four_areas = random_four_areas(words.a, p.area_low, p.area_span, p.area_unit);
                const float aspect = random_aspect(words.b, p.aspect_low, p.aspect_step);
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

        uint flip = 0u;
        if (p.flip == AUGMENT_FLIP_HALF) {
            flip = place.c & 1u;
        } else if (p.flip == AUGMENT_FLIP_ALTERNATING) {
            // The same in all epochs, which turn it over
            const Words once = philox(example.record, 0u, 0x104u, 0u, p.seed_low, p.seed_high);
            flip = (once.a + example.epoch) & 1u;
        }
        if (p.flip == AUGMENT_FLIP_PROBABILITY || p.flip_vertical > 0.0f) {
            const Words flips = philox(example.record, example.epoch, 0x103u, 0u, p.seed_low, p.seed_high);
            if (p.flip == AUGMENT_FLIP_PROBABILITY && unit(flips.a) < p.flip_probability)
                flip = FLIP_LEFT_RIGHT;
            if (unit(flips.b) < p.flip_vertical) flip += FLIP_UPSIDE_DOWN;
        }

        const uint at = i * AUGMENT_DRAWS;
        p.draws.at[at] = vec4(top, left, float(height), float(width));
        p.draws.at[at + 1u] = vec4(uniform_between(light.a, p.brightness_low, p.brightness_high),
                                   uniform_between(light.b, p.contrast_low, p.contrast_high),
                                   uniform_between(light.c, p.saturation_low, p.saturation_high),
                                   uniform_between(light.d, p.hue_low, p.hue_high));
        p.draws.at[at + 2u] = vec4(float(flip), float(mul_high(cut.a, p.out_height - p.cutout + 1u)),
                                   float(mul_high(cut.b, p.out_width - p.cutout + 1u)), 0.0f);
    }
}
