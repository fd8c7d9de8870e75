#include "kernel.h"

KERNEL(multiply, MultiplyParams, 256) {
    const uint image = p.pixels * p.channels;
    if (p.broadcast != 0u) {
        FOR_RANGE(i, p.batch * image) {
            p.y.at[i] = p.a.at[i] * p.b.at[i / image * p.channels + i % p.channels];
        }
    } else {
        FOR_RANGE(i, p.batch * image) { p.y.at[i] = p.a.at[i] * p.b.at[i]; }
    }
}
