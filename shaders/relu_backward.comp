#include "kernel.h"

KERNEL(relu_backward, ActivationBackwardParams, 256) {
    FOR_RANGE(i, p.count) {
        const float dy = p.dy.at[i]; // always read, or the host's compiler does not vectorize
        p.dx.at[i] = p.saved.at[i] > 0.0f ? dy : 0.0f;
    }
}
