#ifndef TOWERS_SHADERS_BATCH_NORM_H
#define TOWERS_SHADERS_BATCH_NORM_H

// Batch normalization: what its kernels share. Neighbouring items are neighbouring channels, which lie side by
// side in memory.

FUNCTION float batch_norm_rstd(float m2, float count, float epsilon) { return inversesqrt(m2 / count + epsilon); }

// The layer's output before a ReLU. Backward computes it again to see where the ReLU let it pass, which costs
// less than to read it, so all kernels must round it alike.
FUNCTION float batch_norm_output(float x, float mean, float factor, float beta) {
    return fma(x - mean, factor, beta);
}

#endif
