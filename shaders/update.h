#ifndef TOWERS_SHADERS_UPDATE_H
#define TOWERS_SHADERS_UPDATE_H

FUNCTION bool not_finite(float nonfinite, float total_loss) {
    return nonfinite != 0.0f || !is_finite(total_loss);
}

// Shared code of an update's kernels: a step that diverged changes nothing.
FUNCTION bool diverged(In_f32 results) {
    return not_finite(results.at[RESULT_NONFINITE], results.at[RESULT_TOTAL_LOSS]);
}

#endif
