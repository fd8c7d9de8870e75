#include "kernel.h"
#include "example.h"
#include "philox.h"

// An item is four elements of one example, which share a draw.
KERNEL(dropout, DropoutParams, 256) {
    const uint quads = QUADS_OF(p.elements);
    FOR_RANGE(i, p.count / p.elements * quads) {
        const uint row = i / quads;
        const Example example = example_at(p.examples, row);
        const uint quad = i % quads;
        const uint base = row * p.elements + quad * 4u;
        const uint lanes = min(4u, p.elements - quad * 4u);
        const Words w = philox(example.record, example.epoch, DROPOUT_STREAM + p.layer, quad, p.seed_low, p.seed_high);
        p.y.at[base] = unit(w.a) < p.keep ? p.x.at[base] / p.keep : 0.0f;
        if (lanes > 1u) p.y.at[base + 1u] = unit(w.b) < p.keep ? p.x.at[base + 1u] / p.keep : 0.0f;
        if (lanes > 2u) p.y.at[base + 2u] = unit(w.c) < p.keep ? p.x.at[base + 2u] / p.keep : 0.0f;
        if (lanes > 3u) p.y.at[base + 3u] = unit(w.d) < p.keep ? p.x.at[base + 3u] / p.keep : 0.0f;
    }
}
