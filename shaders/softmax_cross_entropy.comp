#include "kernel.h"

KERNEL(softmax_cross_entropy, SoftmaxCrossEntropyParams, 256) {
    FOR_RANGE(row, p.rows) {
        const uint base = row * p.classes;
        const uint label = p.labels.at[row];
        const float score = p.logits.at[base + label];
        float top = score;
        float unsound = 0.0f; // max() and exp() may lose a NaN; a sum does not
        for (uint c = 0u; c < p.classes; ++c) {
            const float z = p.logits.at[base + c];
            top = max(top, z);
            if (!is_finite(z)) unsound += z;
        }
        float sum = 0.0f;
        for (uint c = 0u; c < p.classes; ++c) sum += exp(p.logits.at[base + c] - top);
        for (uint c = 0u; c < p.classes; ++c) {
            const float probability = exp(p.logits.at[base + c] - top) / sum;
            p.dlogits.at[base + c] = (probability - (c == label ? 1.0f : 0.0f)) * p.scale + unsound;
        }
        p.losses.at[row] = log(sum) + top - score + unsound;
        p.correct.at[row] = unsound == 0.0f && score >= top ? 1u : 0u;
    }
}
