#ifndef TOWERS_SHADERS_BATCH_NORM_H
#define TOWERS_SHADERS_BATCH_NORM_H

#include "vec4.h"

// Batch normalization: shared code of its kernels. An item has four channels; neighbouring items are
// neighbouring channels, which are adjacent in memory.

FUNCTION vec4 batch_norm_rstd(vec4 m2, float count, float epsilon) {
    return inversesqrt(m2 / count + epsilon);
}

// The layer's output before a ReLU. Backward computes it again to see where the ReLU passed it, which costs
// less than reading it; so all kernels must round it alike.
FUNCTION vec4 batch_norm_output(vec4 x, vec4 mean, vec4 factor, vec4 beta) {
    return fma(x - mean, factor, beta);
}

#endif
