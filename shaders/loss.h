#ifndef TOWERS_SHADERS_LOSS_H
#define TOWERS_SHADERS_LOSS_H

// What the kernels of losses share.
FUNCTION float class_weight(In_f32 weights, uint weighted, uint c) {
    if (weighted == 0u) return 1.0f;
    return weights.at[c];
}

FUNCTION float smoothed(float target, float smoothing, uint classes) {
    return target * (1.0f - smoothing) + smoothing / float(classes);
}

#endif
