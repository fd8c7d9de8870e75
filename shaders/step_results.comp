#include "kernel.h"
#include "update.h"

// One subgroup adds up the three lists, which are short.
KERNEL(step_results, StepResultsParams, 256) {
    FOR_SUBGROUPS(once, 1u) {
        float losses = 0.0f;
        float decays = 0.0f;
        uint nonfinite = 0u;
        for (uint i = SUBGROUP_LANE; i < p.loss_count; i += SUBGROUP_SIZE) losses += p.losses.at[i];
        for (uint i = SUBGROUP_LANE; i < p.decay_count; i += SUBGROUP_SIZE) decays += p.decays.at[i];
        for (uint i = SUBGROUP_LANE; i < p.nonfinite_count; i += SUBGROUP_SIZE)
            nonfinite += p.nonfinite.at[i];
        losses = subgroupAdd(losses);
        decays = subgroupAdd(decays);
        nonfinite = subgroupAdd(nonfinite);
        if (SUBGROUP_LANE == 0u) {
            const float cross_entropy = losses / p.examples;
            const bool stopped = p.step.at[STEP_FOLLOWS] != 0.0f &&
                                 not_finite(p.results.at[RESULT_NONFINITE], p.results.at[RESULT_TOTAL_LOSS]);
            p.results.at[RESULT_CROSS_ENTROPY] = cross_entropy;
            p.results.at[RESULT_TOTAL_LOSS] = cross_entropy + decays;
            p.results.at[RESULT_NONFINITE] = stopped ? 1.0f : float(nonfinite);
        }
    }
}
