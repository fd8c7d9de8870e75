#ifndef TOWERS_SHADERS_BATCH_NORM_H
#define TOWERS_SHADERS_BATCH_NORM_H

// Batch normalization: shared code of its kernels. Neighbouring items are neighbouring channels, which are
// adjacent in memory.

FUNCTION float batch_norm_rstd(float m2, float count, float epsilon) {
    return inversesqrt(m2 / count + epsilon);
}

// The layer's output before a ReLU. Backward computes it again to see where the ReLU passed it, which costs
// less than reading it; so all kernels must round it alike.
FUNCTION float batch_norm_output(float x, float mean, float factor, float beta) {
    return fma(x - mean, factor, beta);
}

#endif
