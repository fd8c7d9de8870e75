// Convolutions and dense layers
#ifndef TOWERS_SHADERS_PARAMS_CONV2D_H
#define TOWERS_SHADERS_PARAMS_CONV2D_H

// A convolution, or a dense layer as a 1x1 convolution of 1x1 images.
struct ConvShape {
    uint batch, in_height, in_width, in_channels;
    uint out_height, out_width, out_channels;
    uint kernel_height, kernel_width, stride, pad_top, pad_left;
};

// y = relu?(conv(x, w) + b)
struct Conv2dForwardParams {
    In_f32 x, w, b;
    Out_f32 y;
    ConvShape shape;
    uint relu;
};

// dx = conv^T(dy, w), zeroed where x <= 0 when `relu` says that x is the output of a ReLU
struct Conv2dBackwardDataParams {
    In_f32 dy, w, x;
    Out_f32 dx;
    ConvShape shape;
    uint relu;
};

// Sum over a `splits`th of all output pixels: dw[splits, KH, KW, I, O], db[splits, O]
struct Conv2dBackwardWeightsParams {
    In_f32 x, dy;
    Out_f32 dw, db;
    ConvShape shape;
    uint splits;
};

// sum[count] = sum over `parts` of partials[parts, count]
struct SumPartialsParams {
    In_f32 partials;
    Out_f32 sum;
    uint parts, count;
};

#endif
