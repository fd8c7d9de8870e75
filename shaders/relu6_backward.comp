#include "kernel.h"

KERNEL(relu6_backward, ActivationBackwardParams, 256) {
    FOR_RANGE(i, p.count) {
        const float y = p.saved.at[i];
        const float dy = p.dy.at[i];
        p.dx.at[i] = y > 0.0f && y < 6.0f ? dy : 0.0f;
    }
}
