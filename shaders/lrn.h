#ifndef TOWERS_SHADERS_LRN_H
#define TOWERS_SHADERS_LRN_H

// Local response normalization: what its two kernels share.
// An item is a run of channels of one pixel, along which the window's sum slides. Runs are short, so that
// rounding does not build up.
#define LRN_RUN 16u

FUNCTION float lrn_power(float scale, float beta) {
    // The tutorial's beta, without the two transcendentals of pow()
    if (beta == 0.75f) {
        const float r = inversesqrt(scale);
        return r * sqrt(r);
    }
    return pow(scale, -beta);
}

#endif
