// Normalizations
#ifndef TOWERS_SHADERS_PARAMS_NORM_H
#define TOWERS_SHADERS_PARAMS_NORM_H

// Local response normalization across channels (Krizhevsky 2012, the *sum* of TensorFlow):
// y = x / scale^beta, scale = bias + alpha * sum of x^2 over channels [c - radius, c + radius]
// An item is four channels of a pixel if their windows reach only into the four on either side, else one
// channel.
#define LRN_BY_VEC4(channels, radius) ((channels) % 4u == 0u && (radius) <= 4u)
#define LRN_ITEMS(pixels, channels, radius)                                                                  \
    ((pixels) * (channels) / (LRN_BY_VEC4(channels, radius) ? 4u : 1u))
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

// Batch normalization. x is [groups, rows, channels]: a group is consecutive examples, rows its examples *
// height * width. Every group has statistics of its own, [groups, channels]: the mean and M2 = sum of (x -
// mean)^2. `splits`: 1. A backend may share out each sum over a group's rows among more parts (SPLIT_BEGIN), of
// which there are then results, [groups, splits, channels], for the merging kernels.
#define BATCH_NORM_COLUMNS 32u // quads of a block of columns: 512 bytes of a row
#define MERGE_COLUMNS 8u       // for the merging kernels, which have few rows
#define BATCH_NORM_SUM_ITEMS(p) ((p).groups * (p).splits * COLUMN_BLOCKS(QUADS_OF((p).channels), BATCH_NORM_COLUMNS))
#define BATCH_NORM_MERGE_ITEMS(p) ((p).groups * COLUMN_BLOCKS(QUADS_OF((p).channels), MERGE_COLUMNS))
// An item of the kernels that write [groups, rows, channels] is four channels of this many rows.
#define BATCH_NORM_STRIP 8u
#define BATCH_NORM_STRIPS(rows) (((rows) + BATCH_NORM_STRIP - 1u) / BATCH_NORM_STRIP)

struct BatchNormMomentsParams {
    In_f32 x;
    Out_f32 mean, m2;
    uint groups, rows, channels, splits;
};

// mean, m2: [groups, channels], from those of the splits
struct BatchNormMergeMomentsParams {
    In_f32 means, m2s;
    Out_f32 mean, m2;
    uint groups, rows, channels, splits;
};

// y = relu?((x - mean) / sqrt(m2 / count + epsilon) * gamma + beta + addend). `count`: the number of values
// in m2, which is above `rows` if the statistics are those of several towers. Evaluation: groups = 1, count =
// 1, the moving mean and variance. gamma, beta [channels] and addend, of y's shape, are only read if used.
struct BatchNormForwardParams {
    In_f32 x, mean, m2, gamma, beta, addend;
    Out_f32 y;
    uint groups, rows, channels;
    float count, epsilon;
    uint gamma_used, beta_used, addend_used, relu;
};

// s1 = sum of dy, s2 = sum of dy * xhat, xhat = (x - mean) / sqrt(m2 / count + epsilon). `relu`: dy is the
// gradient of a ReLU's output, and counts only where the layer's own output was above zero. The kernel
// computes that output again from x as forward did, for which alone it uses gamma and beta.
struct BatchNormBackwardSumsParams {
    In_f32 x, dy, mean, m2, gamma, beta;
    Out_f32 s1, s2;
    uint groups, rows, channels, splits;
    float count, epsilon;
    uint gamma_used, beta_used, relu;
};

// s1, s2: [groups, channels], the sums of those of the splits
struct BatchNormMergeSumsParams {
    In_f32 s1s, s2s;
    Out_f32 s1, s2;
    uint groups, channels, splits;
};

// dgamma = sum of s2 over the groups, dbeta = sum of s1; only written if used.
struct BatchNormParameterGradientsParams {
    In_f32 s1, s2;
    Out_f32 dgamma, dbeta;
    uint groups, channels, gamma_used, beta_used;
};

// dx = gamma / sqrt(m2 / count + epsilon) * (dy - s1 / count - xhat * s2 / count); count, mean, m2, s1 and s2
// may be those of several towers. Statistics that do not depend on x, such as moving ones, have no sums: s1 and
// s2 are only read if used. `relu` as above; beta is only used for it.
struct BatchNormBackwardParams {
    In_f32 x, dy, mean, m2, gamma, beta, s1, s2;
    Out_f32 dx;
    uint groups, rows, channels;
    float count, epsilon;
    uint gamma_used, beta_used, sums_used, relu;
};

// A tower's part of the moving statistics' next value: out_mean = scale * sum of mean over its groups,
// out_variance = scale * sum of m2 / divisor. scale = 1 / groups of the global batch; divisor = count for the
// variance of the population, count - 1 for that of the sample.
struct BatchNormStatisticsParams {
    In_f32 mean, m2;
    Out_f32 out_mean, out_variance;
    uint groups, channels;
    float divisor, scale;
};

// Layer normalization (Ba, Kiros and Hinton 2016) of each row of x [rows, channels] over its channels:
// y = (x - mean) rstd gamma + beta, rstd = 1 / sqrt(variance + epsilon), variance = mean of (x - mean)^2.
// mean and rstd: [rows]. gamma, beta [channels]: not read unless used.
struct LayerNormForwardParams {
    In_f32 x, gamma, beta;
    Out_f32 y, mean, rstd;
    uint rows, channels;
    float epsilon;
    uint gamma_used, beta_used;
};

// dx = rstd (g - mean of g - xhat mean of g xhat), with g = dy gamma, xhat = (x - mean) rstd and the means
// over the row's channels.
struct LayerNormBackwardParams {
    In_f32 x, dy, mean, rstd, gamma;
    Out_f32 dx;
    uint rows, channels, gamma_used;
};

// s1 = sum of dy over the rows, s2 = sum of dy xhat: [channels]. `splits` as in batch normalization, whose merging
// kernel takes the parts.
struct LayerNormParameterSumsParams {
    In_f32 x, dy, mean, rstd;
    Out_f32 s1, s2;
    uint rows, channels, splits;
};

#endif
