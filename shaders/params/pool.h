// Pooling
#ifndef TOWERS_SHADERS_PARAMS_POOL_H
#define TOWERS_SHADERS_PARAMS_POOL_H

// Windows over an image. What lies below and right of it follows from the output's size: padding, or pixels that no
// window covers.
struct PoolShape {
    uint batch, in_height, in_width, channels;
    uint out_height, out_width, window_height, window_width, stride_y, stride_x, pad_top, pad_left;
};

// Window maximum, `argmax` the place in the window (row * window_width + column) for four channels per word:
// [N, OH, OW, ceil(C / 4)]. A place takes a byte, so a window has at most 256. Padding never wins; every window must
// hold a pixel of the image.

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
