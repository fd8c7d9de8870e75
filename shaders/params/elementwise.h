// Element by element
#ifndef TOWERS_SHADERS_PARAMS_ELEMENTWISE_H
#define TOWERS_SHADERS_PARAMS_ELEMENTWISE_H

// Items of activations and sums: four elements each if these come in fours, else one
#define ELEMENT_ITEMS(count) ((count) % 4u == 0u ? (count) / 4u : (count))

// y = activation(x), by the kernel's name:
//   relu      x < 0 ? 0 : x
//   relu6     min(max(x, 0), 6)
//   sigmoid   1 / (1 + exp(-x))
//   silu      x sigmoid(x)
//   gelu      x times the normal distribution's probability below x (PyTorch's default, by erf)
//   gelu_tanh   its approximation x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
//   leaky_relu  x > 0 ? x : slope x
//   hard_swish  x min(max(x + 3, 0), 6) / 6
//   softplus  log(1 + exp(x))
// A NaN stays one. An infinite x gives a y that is not finite, except relu(-infinity) = 0 as in conv2d_forward.
// Only leaky_relu reads `slope`.
struct ActivationForwardParams {
    In_f32 x;
    Out_f32 y;
    uint count;
    float slope;
};

// dx = dy activation'. `saved` is y for relu, relu6 and sigmoid, and x for the others. The derivative of relu is 1
// where y > 0, that of relu6 where 0 < y < 6, and 0 elsewhere; that of leaky_relu is `slope` at 0, and that of
// hard_swish x / 3 + 1 / 2 at -3 and at 3, as in PyTorch.
struct ActivationBackwardParams {
    In_f32 saved, dy;
    Out_f32 dx;
    uint count;
    float slope;
};

// y = relu?(sum of the first `tensors` of x, in the order given); 1 <= tensors <= ADD_TENSORS, the rest may be null.
// `masked`: y = 0 where not mask > 0, as relu_backward does with the sum of gradients; else `mask` is not read.
#define ADD_TENSORS 8
struct AddTensorsParams {
    In_f32 x[ADD_TENSORS], mask;
    Out_f32 y;
    uint tensors, count, relu, masked;
};

// y = a b. a and y: [batch, pixels, channels]. b has that shape too, or with `broadcast` [batch, 1, channels]
// (squeeze and excitation). The gradient by a is the same kernel on dy and b, and without `broadcast` that by b is
// the same kernel on dy and a.
struct MultiplyParams {
    In_f32 a, b;
    Out_f32 y;
    uint batch, pixels, channels, broadcast;
};

// db[batch, channels] = sum over pixels of dy a, where b was broadcast
struct MultiplyBackwardScaleParams {
    In_f32 a, dy;
    Out_f32 db;
    uint batch, pixels, channels;
};

// y[pixel, target_first + c] = x[pixel, source_first + c] for c < channels; a pixel of x has `source_stride`
// channels and one of y `target_stride`. Other channels of y are left alone. An item is four channels of a
// pixel if all of them lie in whole vec4s, else one channel.
#define COPY_CHANNELS_BY_VEC4(p)                                                                             \
    (((p).channels | (p).source_stride | (p).source_first | (p).target_stride | (p).target_first) % 4u == 0u)
#define COPY_CHANNELS_ITEMS(p) ((p).pixels * (p).channels / (COPY_CHANNELS_BY_VEC4(p) ? 4u : 1u))
struct CopyChannelsParams {
    In_f32 x;
    Out_f32 y;
    uint pixels, channels, source_stride, source_first, target_stride, target_first;
};

// y = x / keep with the probability `keep` > 0, else 0, where what is not finite vanishes too. The same kernel
// takes dy to dx. examples: see example.h; `elements`: of one example, `count`: of all; `layer` tells the
// network's dropout layers apart and is less than 2^31. Element i of an example is kept where word i % 4 of
// Philox4x32-10, counted by (record, epoch, DROPOUT_STREAM + layer, i / 4) and keyed by the seed, has upper 24 bits
// less than keep * 2^24: the same on every device, in whatever tower or batch.
#define DROPOUT_STREAM 0x80000000u
struct DropoutParams {
    In_f32 x;
    In_u32x4 examples;
    Out_f32 y;
    uint seed_low, seed_high, layer, elements, count;
    float keep;
};

#endif
