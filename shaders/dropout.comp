#include "kernel.h"
#include "example.h"
#include "philox.h"
#include "vec4.h"

// An item is four elements of one example, which share a draw.
KERNEL(dropout, DropoutParams, 256) {
    const uint quads = QUADS_OF(p.elements);
    FOR_RANGE(i, p.count / p.elements * quads) {
        const uint row = i / quads;
        const uint quad = i % quads;
        const Example example = example_at(p.examples, row);
        const Words w =
            philox(example.record, example.epoch, DROPOUT_STREAM + p.layer, quad, p.seed_low, p.seed_high);
        const vec4 x = channels_at(p.x, p.elements, row, quad);
        const vec4 y =
            vec4(unit(w.a) < p.keep ? x.x / p.keep : 0.0f, unit(w.b) < p.keep ? x.y / p.keep : 0.0f,
                 unit(w.c) < p.keep ? x.z / p.keep : 0.0f, unit(w.d) < p.keep ? x.w / p.keep : 0.0f);
        set_channels(p.y, p.elements, row, quad, y);
    }
}
