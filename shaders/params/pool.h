// Pooling
#ifndef TOWERS_SHADERS_PARAMS_POOL_H
#define TOWERS_SHADERS_PARAMS_POOL_H

// Window maximum, `argmax` the place in the window (row * window + column) for four channels per word:
// [N, OH, OW, ceil(C / 4)]. Padding never wins.
struct PoolShape {
    uint batch, in_height, in_width, channels;
    uint out_height, out_width, window, stride, pad_top, pad_left;
};

struct MaxPoolForwardParams {
    In_f32 x;
    Out_f32 y;
    Out_u32 argmax;
    PoolShape shape;
};

struct MaxPoolBackwardParams {
    In_f32 dy;
    In_u32 argmax;
    Out_f32 dx;
    PoolShape shape;
};

#endif
