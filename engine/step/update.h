// What a step does once all gradients are there: checks them, reports the loss, updates the state. The same
// plan serves a single tower, on its device, and the host stage of several.
#pragma once

#include "engine/optimizers/optimizer.h"
#include "engine/plan/plan.h"
#include "engine/plan/state.h"

namespace towers {

struct UpdateSpec {
    const StateLayout* layout;
    const Optimizer* optimizer;
    bool average_first = false; ///< the moving averages take the parameters from before the update
};

/// The losses that a step adds up.
struct LossList {
    TensorId words;     ///< float32
    unsigned count = 0; ///< of them
    float divisor = 1;  ///< of their sum: the examples of the global batch
};

/// Adds the operations. Takes Arena::gradients as backward leaves it, Arena::step, and Arena::results from
/// `results_end` on, which is free from there. Arena::staged_results receives RESULT_FLOATS floats.
void plan_update(Plan& plan, const UpdateSpec& spec, const LossList& losses, std::size_t results_end);

/// The results of a tower that updates nothing: its part of the loss.
void plan_results(Plan& plan, const LossList& losses);

} // namespace towers
