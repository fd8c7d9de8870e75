#include "kernel.h"
#include "update.h"
#include "workgroup.h"

// One workgroup adds up the lists, which are short.
KERNEL(step_results, StepResultsParams, 256) {
    FOR_WORKGROUPS(once, 1u) {
        float losses = 0.0f;
        float decays = 0.0f;
        for (uint i = LOCAL_ID; i < p.loss_count; i += WORKGROUP_SIZE) losses += p.losses.at[i];
        for (uint i = LOCAL_ID; i < p.decay_count; i += WORKGROUP_SIZE) decays += p.decays.at[i];
        const vec4 sums = workgroupAdd(vec4(losses, decays, 0.0f, 0.0f));
        if (LOCAL_ID == 0u) {
            const float cross_entropy = sums.x / p.examples;
            const bool stopped = p.step.at[STEP_FOLLOWS] != 0.0f &&
                                 not_finite(p.results.at[RESULT_NONFINITE], p.results.at[RESULT_TOTAL_LOSS]);
            p.results.at[RESULT_NONFINITE] = stopped ? 1.0f : 0.0f;
            p.results.at[RESULT_TOTAL_LOSS] = cross_entropy + sums.y;
            p.results.at[RESULT_CROSS_ENTROPY] = cross_entropy;
        }
    }
}
