#ifndef TOWERS_SHADERS_BATCH_NORM_H
#define TOWERS_SHADERS_BATCH_NORM_H

// Batch normalization: what its kernels share. Neighbouring items are neighbouring channels, which lie side by
// side in memory.

// Where `y` is the output of a ReLU and was not above zero, no gradient passes. A NaN stays in sight.
FUNCTION float batch_norm_passed(float y, float dy) { return y <= 0.0f ? 0.0f : dy; }

#endif
