#ifndef TOWERS_SHADERS_CONV_OUTPUT_H
#define TOWERS_SHADERS_CONV_OUTPUT_H

FUNCTION float activate(float sum, uint relu) {
    // Written so that a NaN stays a NaN: divergence must show.
    return relu != 0u && sum < 0.0f ? 0.0f : sum;
}

#endif
