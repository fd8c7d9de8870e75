#ifndef TOWERS_SHADERS_LRN_H
#define TOWERS_SHADERS_LRN_H

// Local response normalization: what its two kernels share
FUNCTION float lrn_power(float scale, float beta) {
    // The tutorial's beta, without the two transcendentals of pow()
    if (beta == 0.75f) {
        const float r = inversesqrt(scale);
        return r * sqrt(r);
    }
    return pow(scale, -beta);
}

#endif
