#include "kernel.h"
#include "loss.h"

// A subgroup takes one row. Where all class weights are 1, each product and sum with them is exact, so the
// bits are those without them.
KERNEL(softmax_cross_entropy, SoftmaxCrossEntropyParams, 256) {
    const float other_target = p.smoothing / float(p.classes);
    const float label_target = 1.0f - p.smoothing + other_target;
    const float gain = p.scale * p.weight * p.logit_scale;
    FOR_SUBGROUPS(row, p.rows) {
        const uint base = row * p.classes;
        const uint label = p.labels.at[row] + p.label_offset;
        const float label_logit = p.logits.at[base + label];
        const float label_weight = class_weight(p.class_weights, p.weighted, label);
        float best = label_logit;
        float unsound = 0.0f; // max() and exp() may lose a NaN; a sum does not
        for (uint c = SUBGROUP_LANE; c < p.classes; c += SUBGROUP_SIZE) {
            const float z = p.logits.at[base + c];
            best = max(best, z);
            if (!is_finite(z * p.logit_scale)) unsound += z * p.logit_scale;
        }
        best = subgroupMax(best);
        unsound = subgroupAdd(unsound);
        const float score = label_logit * p.logit_scale;
        const float top = best * p.logit_scale; // scaling keeps the order
        float sum = 0.0f;
        float below = 0.0f;  // sum of the classes' distances below the best score, times their weights
        float excess = 0.0f; // sum of the classes' weights, less the label's for each
        for (uint c = SUBGROUP_LANE; c < p.classes; c += SUBGROUP_SIZE) {
            const float z = (p.logits.at[base + c] - best) * p.logit_scale;
            const float w = class_weight(p.class_weights, p.weighted, c);
            sum += exp(z);
            below -= w * z;
            excess += w - label_weight;
        }
        sum = subgroupAdd(sum);
        below = subgroupAdd(below);
        excess = subgroupAdd(excess);
        const float target_sum = label_weight + p.smoothing * (excess / float(p.classes));
        for (uint c = SUBGROUP_LANE; c < p.classes; c += SUBGROUP_SIZE) {
            const float probability = exp((p.logits.at[base + c] - best) * p.logit_scale) / sum;
            const float w = class_weight(p.class_weights, p.weighted, c);
            p.dlogits.at[base + c] =
                (probability * target_sum - (c == label ? label_target : other_target) * w) * gain + unsound;
        }
        float loss = label_weight * (log(sum) + top - score);
        // Smoothing moves a part of the target from the label to all classes. Skipped if it is 0, since 0
        // times an overflow is NaN.
        if (p.smoothing != 0.0f)
            loss +=
                p.smoothing * ((below + log(sum) * excess) / float(p.classes) - label_weight * (top - score));
        if (SUBGROUP_LANE == 0u) {
            p.losses.at[row] = loss * p.weight + unsound;
            p.correct.at[row] = unsound == 0.0f && label_logit >= best ? 1u : 0u;
        }
    }
}
