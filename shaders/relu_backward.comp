#include "kernel.h"

KERNEL(relu_backward, ReluBackwardParams, 256) {
    FOR_RANGE(i, p.count) { p.dx.at[i] = p.y.at[i] > 0.0f ? p.dx.at[i] : 0.0f; }
}
