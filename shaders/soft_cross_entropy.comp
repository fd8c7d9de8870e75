#include "kernel.h"
#include "loss.h"

// A subgroup takes one row.
KERNEL(soft_cross_entropy, TargetCrossEntropyParams, 256) {
    const float gain = p.scale * p.weight * p.logit_scale;
    FOR_SUBGROUPS(row, p.rows) {
        const uint base = row * p.classes;
        float best = p.logits.at[base];
        float unsound = 0.0f; // max() and exp() may lose a NaN; a sum does not
        for (uint c = SUBGROUP_LANE; c < p.classes; c += SUBGROUP_SIZE) {
            const float z = p.logits.at[base + c];
            best = max(best, z);
            if (!is_finite(z * p.logit_scale)) unsound += z * p.logit_scale;
        }
        best = subgroupMax(best);
        unsound = subgroupAdd(unsound);
        float negative_weight = -class_weight(p.class_weights, p.weighted, 0u);
        if (p.weighted != 0u)
            for (uint c = SUBGROUP_LANE; c < p.classes; c += SUBGROUP_SIZE)
                negative_weight = max(negative_weight, -p.class_weights.at[c]);
        const float base_weight = -subgroupMax(negative_weight); // the least, so that no sum cancels
        float sum = 0.0f;
        float below = 0.0f;  // sum of the scores' distances below the best one, times the weighted targets
        float excess = 0.0f; // sum of the targets, times their weights less the base weight: 0 where all are 1
        for (uint c = SUBGROUP_LANE; c < p.classes; c += SUBGROUP_SIZE) {
            const float z = (p.logits.at[base + c] - best) * p.logit_scale;
            const float w = class_weight(p.class_weights, p.weighted, c);
            const float target = smoothed(p.targets.at[row * p.stride + c], p.smoothing, p.classes);
            sum += exp(z);
            if (target != 0.0f) below -= w * target * z; // 0 times an overflow is NaN
            excess += (w - base_weight) * target;
        }
        sum = subgroupAdd(sum);
        below = subgroupAdd(below);
        const float target_sum = base_weight + subgroupAdd(excess); // of the weighted targets
        for (uint c = SUBGROUP_LANE; c < p.classes; c += SUBGROUP_SIZE) {
            const float probability = exp((p.logits.at[base + c] - best) * p.logit_scale) / sum;
            const float target = smoothed(p.targets.at[row * p.stride + c], p.smoothing, p.classes);
            p.dlogits.at[base + c] =
                (probability * target_sum - class_weight(p.class_weights, p.weighted, c) * target) * gain + unsound;
        }
        if (SUBGROUP_LANE == 0u) p.losses.at[row] = (below + log(sum) * target_sum) * p.weight + unsound;
    }
}
