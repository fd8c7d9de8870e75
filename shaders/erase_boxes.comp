#include "kernel.h"
#include "example.h"
#include "normal.h"
#include "philox.h"

KERNEL(erase_boxes, EraseBoxesParams, 256) {
    const uint pixels = p.height * p.width;
    FOR_RANGE(item, p.count * pixels) {
        const uint i = item / pixels;
        const uint k = item % pixels;
        uint erased = p.most; // by which box
        for (uint number = 0u; number < p.most; ++number) {
            const vec4 box = p.boxes.at[(i * p.most + number) * ERASING_DRAWS];
            // Unsigned differences: places before the box compare as far beyond it.
            if (k / p.width - uint(box.x) < uint(box.z) && k % p.width - uint(box.y) < uint(box.w))
                erased = number;
        }
        if (erased == p.most) continue;
        vec4 colour = p.boxes.at[(i * p.most + erased) * ERASING_DRAWS + 1u];
        if (p.mode == ERASING_PIXEL) {
            const Example example = example_at(p.examples, i);
            const Words a =
                philox(example.record, example.epoch, 0x1d0u + erased, 2u * k, p.seed_low, p.seed_high);
            const Words b =
                philox(example.record, example.epoch, 0x1d0u + erased, 2u * k + 1u, p.seed_low, p.seed_high);
            colour = vec4(normal(a.a, a.b), normal(a.c, a.d), normal(b.a, b.b), 0.0f);
        }
        p.images.at[item * p.channels] = colour.x;
        if (p.channels == 3u) {
            p.images.at[item * 3u + 1u] = colour.y;
            p.images.at[item * 3u + 2u] = colour.z;
        }
    }
}
