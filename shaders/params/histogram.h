// What a tensor's values are like, for people
#ifndef TOWERS_SHADERS_PARAMS_HISTOGRAM_H
#define TOWERS_SHADERS_PARAMS_HISTOGRAM_H

// Bins by the bits of float32: eight for each factor of 2 from 2^-40 to 2^40, so that a bin's limits differ
// by 7 to 12 %, about as TensorFlow's do (10 %). The middle one holds what is closer to 0 than 2^-40 and not
// 0. Above it, bin HISTOGRAM_SIDE + k holds values whose bits are from HISTOGRAM_LOW + (k - 1 <<
// HISTOGRAM_SHIFT) on; the last also all larger ones. Below it are the negative ones alike.
#define HISTOGRAM_LOW 0x2b800000u // 2^-40
#define HISTOGRAM_SHIFT 20u
#define HISTOGRAM_SIDE 640u // bins of each sign
#define HISTOGRAM_BINS (2u * HISTOGRAM_SIDE + 1u)
// After the bins: how many values are 0, and how many infinite or NaN; they are in no bin.
#define HISTOGRAM_ZEROS HISTOGRAM_BINS
#define HISTOGRAM_NONFINITE (HISTOGRAM_BINS + 1u)
#define HISTOGRAM_WORDS (HISTOGRAM_BINS + 2u)

// Adds the values of x to `counts`, [HISTOGRAM_WORDS]. partials = (least, largest, sum, sum of squares) of
// the finite values of each of REDUCTION_CHUNKS(QUADS_OF(count)) chunks; without finite values the least is
// larger than the largest.
struct HistogramParams {
    In_f32 x;
    InOut_u32 counts;
    Out_f32x4 partials;
    uint count;
};

#endif
