// From gradients to the next parameters, and what a step reports
#ifndef TOWERS_SHADERS_PARAMS_UPDATE_H
#define TOWERS_SHADERS_PARAMS_UPDATE_H

// dw += decay * w; partials = sums of decay / 2 * w^2, one per chunk. `quads` counts vec4s.
struct WeightDecayParams {
    In_f32x4 w;
    InOut_f32x4 dw;
    Out_f32 partials;
    float decay;
    uint quads;
};

// results[RESULT_*] from the parts: cross entropy = sum of `losses` / examples, total = that + sum of
// `decays`. `examples`: those of the global batch. A list of count 0 is not read. If `step` says that it
// follows a step whose results nobody has seen, and that one's, which `results` still has, are not finite, then
// neither are these.
struct StepResultsParams {
    In_f32 losses, decays, step;
    InOut_f32 results;
    uint loss_count, decay_count;
    float examples;
};

// nonfinite[0], the bits of results[RESULT_NONFINITE], becomes those of 1 if an element is infinite or NaN.
struct CheckFiniteParams {
    In_f32x4 x;
    InOut_u32 nonfinite;
    uint quads;
};

// The kernels from here to Adam's do nothing if `results` says that a gradient or loss is not finite, so that
// a diverged step keeps the last good state. All take the learning rate from `step`.

// w -= rate * g
struct SgdParams {
    In_f32x4 gradients;
    InOut_f32x4 parameters;
    In_f32 step, results;
    uint quads;
};

// average += blend * (value - average); a negative `blend` stands for 1 - step[STEP_AVERAGE_DECAY]
struct MovingAverageParams {
    In_f32x4 values;
    InOut_f32x4 averages;
    In_f32 step, results;
    uint quads;
    float blend;
};

// v = momentum * v + g, then w -= rate * (nesterov ? g + momentum * v : v); v starts as zero
struct MomentumParams {
    In_f32x4 gradients;
    InOut_f32x4 parameters, velocity;
    In_f32 step, results;
    uint quads;
    float momentum;
    uint nesterov;
};

// s += blend * (g^2 - s). PyTorch's form: v = momentum * v + g / (sqrt(s) + epsilon), w -= rate * v; s starts
// as zero. TensorFlow's, `epsilon_inside`: v = momentum * v + rate * g / sqrt(s + epsilon), w -= v; its s
// starts as one. `blend` = 1 - decay, which is given because 1 - decay would lose digits in float32.
struct RmspropParams {
    In_f32x4 gradients;
    InOut_f32x4 parameters, mean_square, velocity;
    In_f32 step, results;
    uint quads;
    float blend, momentum, epsilon;
    uint epsilon_inside;
};

// Kingma & Ba 2015: m += blend_1 * (g - m), v += blend_2 * (g^2 - v), blend_i = 1 - beta_i, both starting as
// zero; w -= rate * (m / c_1) / (sqrt(v / c_2) + epsilon) with the corrections c_i from `step`
struct AdamParams {
    In_f32x4 gradients;
    InOut_f32x4 parameters, first_moment, second_moment;
    In_f32 step, results;
    uint quads;
    float blend_1, blend_2, epsilon;
};

// w -= rate * decay * w; AdamW (Loshchilov & Hutter 2019) does it before Adam's update
struct DecoupledDecayParams {
    InOut_f32x4 parameters;
    In_f32 step, results;
    float decay;
    uint quads;
};

// partials = sums of x^2, one per chunk
struct SumSquaresParams {
    In_f32x4 x;
    Out_f32 partials;
    uint quads;
};

// norm[0] = sqrt(sum of squares)
struct GradientNormParams {
    In_f32 squares;
    Out_f32 norm;
    uint count;
};

// g *= min(1, most / (norm[0] + 1e-6)), as PyTorch's clip_grad_norm_; by a norm that is infinite or NaN, so
// that the gradients are too
struct ClipGradientsParams {
    InOut_f32x4 gradients;
    In_f32 norm;
    float most;
    uint quads;
};

// g *= step[STEP_GRADIENT_SCALE]
struct UnscaleGradientsParams {
    InOut_f32x4 gradients;
    In_f32 step;
    uint quads;
};

// sum += x
struct AccumulateGradientsParams {
    In_f32x4 x;
    InOut_f32x4 sum;
    uint quads;
};

#endif
