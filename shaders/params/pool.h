// Pooling
#ifndef TOWERS_SHADERS_PARAMS_POOL_H
#define TOWERS_SHADERS_PARAMS_POOL_H

// Windows over an image. The output's size implies what is below and right of the image: padding, or pixels
// that no window covers.
struct PoolShape {
    uint batch, in_height, in_width, channels;
    uint out_height, out_width, window_height, window_width, stride_y, stride_x, pad_top, pad_left;
};

// Window maximum, `argmax` the place in the window (row * window_width + column) for four channels per word:
// [N, OH, OW, ceil(C / 4)]. A place takes a byte, so a window has at most 256. Padding is never the maximum;
// every window must contain a pixel of the image.

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
// An image falls into blocks: pixels next to each other, of which windows begin at most at the first. With a
// large stride a block is one pixel, so that there are enough.
#define MAX_POOL_BLOCK(stride) ((stride) <= 4u ? (stride) : 1u)
#define MAX_POOL_BLOCK_ROWS(s)                                                                               \
    (((s).in_height + (s).pad_top + MAX_POOL_BLOCK((s).stride_y) - 1u) / MAX_POOL_BLOCK((s).stride_y))
#define MAX_POOL_BLOCK_COLUMNS(s)                                                                            \
    (((s).in_width + (s).pad_left + MAX_POOL_BLOCK((s).stride_x) - 1u) / MAX_POOL_BLOCK((s).stride_x))
#define MAX_POOL_ITEMS(s)                                                                                    \
    ((s).batch * MAX_POOL_BLOCK_ROWS(s) * MAX_POOL_BLOCK_COLUMNS(s) * QUADS_OF((s).channels))

// Window mean; the whole image as the window is global average pooling. The divisor is the number of the
// window's pixels within the image, or with `padding_counts` all its places (PyTorch's count_include_pad).
// Every window must contain at least one pixel of the image.
struct AveragePoolShape {
    uint batch, in_height, in_width, channels;
    uint out_height, out_width, window_height, window_width;
    uint stride_y, stride_x, pad_top, pad_left, padding_counts;
};

// x[N, H, W, C] -> y[N, OH, OW, C]. A window of AVERAGE_POOL_SHARED places or more is summed by a subgroup.
#define AVERAGE_POOL_SHARED 64u
struct AveragePoolForwardParams {
    In_f32 x;
    Out_f32 y;
    AveragePoolShape shape;
};

// dx[N, H, W, C] = sum of dy / divisor over the windows that contain the pixel
struct AveragePoolBackwardParams {
    In_f32 dy;
    Out_f32 dx;
    AveragePoolShape shape;
};

#endif
