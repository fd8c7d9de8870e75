#include "kernel.h"
#include "activation.h"

KERNEL(gelu_forward, ActivationForwardParams, 256) {
    FOR_RANGE(i, p.count) {
        const Normal normal = normal_at(p.x.at[i]);
        p.y.at[i] = p.x.at[i] * normal.below;
    }
}
