// Normalizations
#ifndef TOWERS_SHADERS_PARAMS_NORM_H
#define TOWERS_SHADERS_PARAMS_NORM_H

// Local response normalization across channels (Krizhevsky 2012, the *sum* of TensorFlow):
// y = x / scale^beta, scale = bias + alpha * sum of x^2 over channels [c - radius, c + radius]
struct LrnForwardParams {
    In_f32 x;
    Out_f32 y, scale;
    uint pixels, channels, radius;
    float bias, alpha, beta;
};

// dx = dy scale^-beta - 2 alpha beta x * (sum of dy y / scale over the window),
// zeroed where x <= 0 when `relu` says that x is the output of a ReLU
struct LrnBackwardParams {
    In_f32 x, y, scale, dy;
    Out_f32 dx;
    uint pixels, channels, radius;
    float alpha, beta;
    uint relu;
};

#endif
