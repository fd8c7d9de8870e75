#include "kernel.h"
#include "example.h"
#include "normal.h"
#include "philox.h"
#include "random_box.h"

KERNEL(draw_erasing, DrawErasingParams, 256) {
    FOR_RANGE(item, p.count * p.most) {
        const uint number = item % p.most;
        const Example example = example_at(p.examples, item / p.most);
        const Words often = philox(example.record, example.epoch, 0x150u, 0u, p.seed_low, p.seed_high);
        const uint boxes = unit(often.a) < p.probability ? 1u + mul_high(often.b, p.most) : 0u;
        vec4 box = vec4(0.0f);
        vec4 colour = vec4(0.0f);
        if (number < boxes) {
            bool found = false;
            for (uint attempt = 0u; attempt < 10u && !found; ++attempt) {
                const Words words = philox(example.record, example.epoch, 0x160u + 10u * number + attempt, 0u,
                                           p.seed_low, p.seed_high);
                const float four_areas = random_four_areas(words.a, p.area_low, p.area_span, p.area_unit);
                const float aspect = random_aspect(words.b, p.aspect_low, p.aspect_step);
                const uint height = rounded_side(four_areas * aspect, float(boxes));
                const uint width = rounded_side(four_areas, aspect * float(boxes));
                found = height < p.height && width < p.width;
                if (found)
                    box = vec4(float(mul_high(words.c, p.height - height + 1u)),
                               float(mul_high(words.d, p.width - width + 1u)), float(height), float(width));
            }
            if (p.mode == ERASING_RAND) {
                const Words a =
                    philox(example.record, example.epoch, 0x1c0u + number, 0u, p.seed_low, p.seed_high);
                const Words b =
                    philox(example.record, example.epoch, 0x1c0u + number, 1u, p.seed_low, p.seed_high);
                colour = vec4(normal(a.a, a.b), normal(a.c, a.d), normal(b.a, b.b), 0.0f);
            }
        }
        p.boxes.at[item * ERASING_DRAWS] = box;
        p.boxes.at[item * ERASING_DRAWS + 1u] = colour;
    }
}
