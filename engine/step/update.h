// What a step does once all gradients are there: checks them, reports the loss, updates the state. The same
// plan serves a single tower, on its device, and the host reducer of several.
#pragma once

#include "engine/optimizers/optimizer.h"
#include "engine/plan/plan.h"
#include "engine/plan/state.h"

namespace towers {

struct UpdateSpec {
    const StateLayout* layout;
    const Optimizer* optimizer;
    bool average_first = false; ///< the moving averages take the parameters from before the update
    bool scales_loss = false;   ///< the gradients have the factor StepNumbers::loss_scale; statistics do not
};

/// The losses of a step.
struct LossList {
    TensorId words;    ///< float32; or no tensor: then the losses count elsewhere
    float divisor = 1; ///< of the sum: examples in the global batch
};

/// Adds the operations. They take Arena::gradients as backward leaves it and Arena::step.
/// Arena::staged_results receives RESULT_FLOATS floats.
void plan_update(Plan& plan, const UpdateSpec& spec, const LossList& losses);

/// Adds the results of a tower that does not update: its part of the loss.
void plan_results(Plan& plan, const LossList& losses);

} // namespace towers
