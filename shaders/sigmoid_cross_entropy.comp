#include "kernel.h"
#include "activation.h"
#include "loss.h"

// A subgroup takes one row. -log(sigmoid(z)) is softplus(-z). Not finite where a score is not, as softplus()
// and sigmoid().
KERNEL(sigmoid_cross_entropy, TargetCrossEntropyParams, 256) {
    const float part = p.weight / float(p.classes);
    const float gain = p.scale * part * p.logit_scale;
    FOR_SUBGROUPS(row, p.rows) {
        const uint base = row * p.classes;
        float loss = 0.0f;
        float unsound = 0.0f;
        for (uint c = SUBGROUP_LANE; c < p.classes; c += SUBGROUP_SIZE) {
            const float z = p.logits.at[base + c] * p.logit_scale;
            const float target = smoothed(p.targets.at[row * p.stride + c], p.smoothing, p.classes);
            if (!is_finite(z)) unsound += z;
            loss += class_weight(p.class_weights, p.weighted, c) * target * softplus(-z) +
                    (1.0f - target) * softplus(z);
        }
        loss = subgroupAdd(loss);
        unsound = subgroupAdd(unsound);
        for (uint c = SUBGROUP_LANE; c < p.classes; c += SUBGROUP_SIZE) {
            const float z = p.logits.at[base + c] * p.logit_scale;
            const float target = smoothed(p.targets.at[row * p.stride + c], p.smoothing, p.classes);
            // The sigmoids of z and -z each keep their digits where the other is near 1.
            p.dlogits.at[base + c] = ((1.0f - target) * sigmoid(z) -
                                      class_weight(p.class_weights, p.weighted, c) * target * sigmoid(-z)) *
                                         gain +
                                     unsound;
        }
        if (SUBGROUP_LANE == 0u) p.losses.at[row] = loss * part + unsound;
    }
}
