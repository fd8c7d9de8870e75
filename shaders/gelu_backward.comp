#include "kernel.h"
#include "activation.h"

KERNEL(gelu_backward, ActivationBackwardParams, 256) {
    FOR_RANGE(i, p.count) {
        const float x = p.saved.at[i];
        const Normal normal = normal_at(x);
        p.dx.at[i] = p.dy.at[i] * (normal.below + x * normal.density);
    }
}
