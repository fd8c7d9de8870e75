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

#endif
