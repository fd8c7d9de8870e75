// The parameter block of every kernel, read by host C++, CUDA and GLSL alike.
// Pointers first, then 32-bit scalars; at most 128 bytes (Vulkan's guaranteed push constants).
// Tensors: activations NHWC, convolution weights HWIO, dense weights [in, out], row-major float32.
#ifndef TOWERS_SHADERS_PARAMS_H
#define TOWERS_SHADERS_PARAMS_H

// Slots of the float block that the host writes before each step. The corrections are Adam's, 1 - beta^n in
// step n (the first is 1) for the first moment and for the second; computed in double precision. STEP_FOLLOWS
// is 1 if the host has not seen the results of the step before, else 0. In a step with loss scaling,
// STEP_LOSS_SCALE multiplies the loss's gradients, at a multiple of 16 bytes since it is a tensor of its own,
// and STEP_GRADIENT_SCALE, its reciprocal, takes it out of the parameters' gradients.
#define STEP_LEARNING_RATE 0
#define STEP_AVERAGE_DECAY 1
#define STEP_CORRECTION_1 2
#define STEP_CORRECTION_2 3
#define STEP_FOLLOWS 4
#define STEP_GRADIENT_SCALE 5
#define STEP_LOSS_SCALE 8
#define STEP_FLOATS 9

// Slots of the float block that a step writes. RESULT_NONFINITE is 1 if a gradient is not finite, else 0.
#define RESULT_NONFINITE 0
#define RESULT_TOTAL_LOSS 1
#define RESULT_CROSS_ENTROPY 2
#define RESULT_FLOATS 3

// A reduction over a large tensor leaves REDUCTION_CHUNKS(quads) partial results, few enough for one
// workgroup to add up: one for each chunk of the tensor's vec4s, of which the n-th begins at vec4
// REDUCTION_BEGIN(quads, n). A chunk has whole blocks of REDUCTION_BLOCK vec4s, except the last.
#define REDUCTION_BLOCK 512u
#define REDUCTION_BLOCKS(quads) (((quads) + REDUCTION_BLOCK - 1u) / REDUCTION_BLOCK)
#define REDUCTION_MOST_CHUNKS 1024u
#define REDUCTION_CHUNKS(quads)                                                                              \
    (REDUCTION_BLOCKS(quads) < REDUCTION_MOST_CHUNKS ? REDUCTION_BLOCKS(quads) : REDUCTION_MOST_CHUNKS)
#define REDUCTION_BEGIN(quads, chunk)                                                                        \
    ((chunk) == REDUCTION_CHUNKS(quads)                                                                      \
         ? (quads)                                                                                           \
         : REDUCTION_BLOCKS(quads) * (chunk) / REDUCTION_CHUNKS(quads) * REDUCTION_BLOCK)

// A sum over rows that a backend splits: the split number n of `splits` begins at this row. There are as many
// rows as splits at least.
#define SPLIT_BEGIN(rows, splits, n) ((rows) / (splits) * (n) + min((rows) % (splits), (n)))
#define SPLIT_ROWS(rows, splits, n) ((rows) / (splits) + ((n) < (rows) % (splits) ? 1u : 0u))

// Kernels that add up rows, of so many quads each, by workgroups of 256 (column_sums.h). An item is a block
// of columns, at most `most` quads wide; all blocks are equally wide, but the last may be narrower. A
// workgroup reads ROWS_AT_ONCE(width) rows of a block at once, and an invocation loads ROWS_IN_FLIGHT of its
// rows before it uses one.
#define COLUMN_BLOCKS(quads, most) (((quads) + (most)-1u) / (most))
#define COLUMN_WIDTH(quads, most) (((quads) + COLUMN_BLOCKS(quads, most) - 1u) / COLUMN_BLOCKS(quads, most))
#define ROWS_AT_ONCE(width) (256u / (width))
#define ROWS_IN_FLIGHT 4u

// Pixels of a batch's images, of a shape that has these members
#define IN_PIXELS(shape) ((shape).batch * (shape).in_height * (shape).in_width)
#define OUT_PIXELS(shape) ((shape).batch * (shape).out_height * (shape).out_width)
// Groups of four neighbouring elements, of which the last may have fewer
#define QUADS_OF(elements) (((elements) + 3u) / 4u)

#include "params/augment.h"
#include "params/conv2d.h"
#include "params/elementwise.h"
#include "params/histogram.h"
#include "params/images.h"
#include "params/loss.h"
#include "params/mix.h"
#include "params/norm.h"
#include "params/pool.h"
#include "params/update.h"
#include "params/winograd.h"

#endif
