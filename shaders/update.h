#ifndef TOWERS_SHADERS_UPDATE_H
#define TOWERS_SHADERS_UPDATE_H

// Shared code of an update's kernels: a step that diverged changes nothing.
FUNCTION bool diverged(In_f32 results) {
    return results.at[RESULT_NONFINITE] != 0.0f || !is_finite(results.at[RESULT_TOTAL_LOSS]);
}

#endif
