// The parameter block of every kernel, read by host C++, CUDA and GLSL alike.
// Pointers first, then 32-bit scalars; at most 128 bytes (Vulkan's guaranteed push constants).
// Tensors: activations NHWC, convolution weights HWIO, dense weights [in, out], row-major float32.
#ifndef TOWERS_SHADERS_PARAMS_H
#define TOWERS_SHADERS_PARAMS_H

// Slots of the float block that the host writes before each step.
#define STEP_LEARNING_RATE 0
#define STEP_AVERAGE_DECAY 1
#define STEP_FLOATS 4

// Slots of the float block that a step leaves behind.
#define RESULT_TOTAL_LOSS 0
#define RESULT_CROSS_ENTROPY 1
#define RESULT_NONFINITE 2
#define RESULT_FLOATS 3

// A reduction over a large tensor leaves REDUCTION_CHUNKS(quads) partial results, each of REDUCTION_DEPTH vec4s.
// REDUCTION_LANES chunks are a block, within which the vec4s interleave, so that neighbouring invocations of a GPU
// read neighbouring memory while a host thread stays within one page. Chunks of the last block may be empty.
#define REDUCTION_LANES 32u
#define REDUCTION_DEPTH 16u
#define REDUCTION_BLOCK (REDUCTION_LANES * REDUCTION_DEPTH)
#define REDUCTION_CHUNKS(quads) (((quads) + REDUCTION_BLOCK - 1u) / REDUCTION_BLOCK * REDUCTION_LANES)

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

// dx = y > 0 ? dx : 0
struct ReluBackwardParams {
    In_f32 y;
    InOut_f32 dx;
    uint count;
};

// Each row: losses = -log softmax(logits)[label]; dlogits = (softmax - onehot) * scale;
// correct = no class scores higher than the label's (in_top_k with k = 1)
struct SoftmaxCrossEntropyParams {
    In_f32 logits;
    In_u32 labels;
    Out_f32 dlogits, losses;
    Out_u32 correct;
    uint rows, classes;
    float scale;
};

// dw += decay * w; partials = sums of decay / 2 * w^2, one per chunk. `quads` counts vec4s.
struct WeightDecayParams {
    In_f32x4 w;
    InOut_f32x4 dw;
    Out_f32 partials;
    float decay;
    uint quads;
};

// How many elements of each chunk are infinite or NaN
struct CountNonfiniteParams {
    In_f32x4 x;
    Out_u32 counts;
    uint quads;
};

// results[RESULT_*] from the parts: cross entropy = mean of `losses`, total = that + sum of `decays`
struct StepResultsParams {
    In_f32 losses, decays;
    In_u32 nonfinite;
    Out_f32 results;
    uint loss_count, decay_count, nonfinite_count;
};

// w -= learning_rate * g, then average += (1 - decay) * (w - average); does nothing if `results` tells of a
// non-finite gradient or loss, so that a diverged step leaves the last good parameters. `average_first`
// averages the parameters from before the update.
struct SgdParams {
    In_f32x4 gradients;
    InOut_f32x4 parameters, averages;
    In_f32 step, results;
    uint quads, average_first;
};

// mean = sum over towers of weight * gradients, in the order given
#define AVERAGE_TOWERS 8
struct AverageGradientsParams {
    In_f32x4 gradients[AVERAGE_TOWERS];
    Out_f32x4 mean;
    float weight[AVERAGE_TOWERS];
    uint towers, quads;
};

// Picks examples from the resident data set, crops, and standardizes: (x - mean) / max(stddev, 1/sqrt(n)).
// records: planar RGB bytes, four per word, one image after the other; examples: (record, epoch) each.
// `distort`: random crop, flip, brightness + U(-63, 63), contrast x U(0.2, 1.8) about each channel's mean;
// else the centre crop. Random numbers: Philox4x32-10 keyed by the seed, counted by (record, epoch).
struct DistortImagesParams {
    In_u32 records, labels;
    In_u32x2 examples;
    Out_f32 images;
    Out_u32 batch_labels;
    uint seed_low, seed_high;
    uint count, height, width, crop, distort;
};

#endif
