// Element by element
#ifndef TOWERS_SHADERS_PARAMS_ELEMENTWISE_H
#define TOWERS_SHADERS_PARAMS_ELEMENTWISE_H

// dx = y > 0 ? dx : 0
struct ReluBackwardParams {
    In_f32 y;
    InOut_f32 dx;
    uint count;
};

#endif
