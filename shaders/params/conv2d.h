// Convolutions and dense layers
#ifndef TOWERS_SHADERS_PARAMS_CONV2D_H
#define TOWERS_SHADERS_PARAMS_CONV2D_H

// A convolution, or a dense layer as a 1x1 convolution of 1x1 images. Channels fall into `groups`: output
// channels of one group see its in_channels / groups input channels only, so weights are [KH, KW, in_channels
// / groups, out_channels], one group's output channels after the other's. A window's places are `dilation`
// pixels apart, at least 1. The output's size implies what is below and right of the image: padding, or
// pixels that no window covers.
struct ConvShape {
    uint batch, in_height, in_width, in_channels;
    uint out_height, out_width, out_channels;
    uint kernel_height, kernel_width, stride_y, stride_x, dilation_y, dilation_x, pad_top, pad_left, groups;
};

// y = relu?(conv(x, w) + b). `bias` says whether there is a b; without one its pointer is null. `splits`: 1.
// A backend may share out each sum over taps and input channels among more parts, which are then y[splits,
// ...], still without bias and ReLU. depthwise_conv2d_forward: likewise, where groups = in_channels =
// out_channels.
struct Conv2dForwardParams {
    In_f32 x, w, b;
    Out_f32 y;
    ConvShape shape;
    uint relu, bias, splits;
};

// dx = conv^T(dy, w), zeroed where x <= 0 when `relu` says that x is the output of a ReLU. `splits`: 1. A
// backend may share out each sum over taps and output channels among more parts, which are then dx[splits,
// ...], with nothing zeroed yet. depthwise_conv2d_backward_data: likewise, where groups = in_channels =
// out_channels.
struct Conv2dBackwardDataParams {
    In_f32 dy, w, x;
    Out_f32 dx;
    ConvShape shape;
    uint relu, splits;
};

// dw = x^T dy and, when there is a `bias`, db = the sum of dy over all output pixels; else db is null.
// `splits`: 1. A backend may share out the sum over output pixels among more parts, which are then
// dw[splits, ...] and db[splits, O].
// depthwise_conv2d_backward_weights: likewise, where groups = in_channels = out_channels.
struct Conv2dBackwardWeightsParams {
    In_f32 x, dy;
    Out_f32 dw, db;
    ConvShape shape;
    uint bias, splits;
};

// sum[count] = sum over `parts` of partials[parts, count], and then what the split kernel left out: +
// b[channels] if there is a `bias`, ReLU if `relu`, zeroed where x[count] <= 0 if `masked`. Without them b
// and x may be null. `channels` divides `count`. If `padded_channels` is not 0, sum is [..., rows, channels],
// the first rows and channels of partials[parts, ..., padded_rows, padded_channels].
struct SumPartialsParams {
    In_f32 partials, b, x;
    Out_f32 sum;
    uint parts, count, channels;
    uint bias, relu, masked;
    uint rows, padded_rows, padded_channels;
};
#define SUM_PARTIALS_COLUMNS(p) ((p).count / (p).channels * QUADS_OF((p).channels))
// Columns of a workgroup: fewer if there are more parts, so that each invocation has few of them
#define SUM_PARTIALS_WIDTH(parts)                                                                            \
    ((parts) <= 4u    ? 256u                                                                                 \
     : (parts) <= 8u  ? 128u                                                                                 \
     : (parts) <= 16u ? 64u                                                                                  \
     : (parts) <= 32u ? 32u                                                                                  \
     : (parts) <= 64u ? 16u                                                                                  \
                      : 8u)
#define SUM_PARTIALS_ITEMS(p)                                                                                \
    ((SUM_PARTIALS_COLUMNS(p) + SUM_PARTIALS_WIDTH((p).parts) - 1u) / SUM_PARTIALS_WIDTH((p).parts))

// y[outer, padded_rows, padded_channels] = x[outer, rows, channels] and zeros after its rows and channels.
// padded_channels: a multiple of 4
struct PadChannelsParams {
    In_f32 x;
    Out_f32x4 y;
    uint outer, rows, channels, padded_rows, padded_channels;
};

// y[rows, out_width, padded_row]: at each place of a window along a row of x[rows, in_width, channels], the
// window's kernel_width x channels floats, zeros for those beside the row, and zeros after them.
// `padded_row`: a multiple of 4
struct WindowRowsParams {
    In_f32 x;
    Out_f32x4 y;
    uint rows, in_width, channels, out_width, kernel_width, stride_x, pad_left, padded_row;
};

#endif
