#ifndef TOWERS_SHADERS_UPDATE_H
#define TOWERS_SHADERS_UPDATE_H

// What the kernels of an update share: a step that diverged leaves everything as it was.
FUNCTION bool diverged(In_f32 results) {
    return results.at[RESULT_NONFINITE] != 0.0f || !is_finite(results.at[RESULT_TOTAL_LOSS]);
}

#endif
