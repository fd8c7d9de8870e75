#include "kernel.h"
#include "vec4.h"

// An item is four channels of a pixel.
KERNEL(multiply, MultiplyParams, 256) {
    const uint quads = QUADS_OF(p.channels);
    FOR_RANGE(i, p.batch * p.pixels * quads) {
        const uint pixel = i / quads;
        const uint factors = p.broadcast != 0u ? pixel / p.pixels : pixel;
        const vec4 a = channels_at(p.a, p.channels, pixel, i % quads);
        set_channels(p.y, p.channels, pixel, i % quads, a * channels_at(p.b, p.channels, factors, i % quads));
    }
}
