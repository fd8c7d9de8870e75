// The passes of a step in micro-batches.
#pragma once

#include "engine/step/network.h"

#include <span>

namespace towers {

/// Plans a pass for each size of micro-batch and what comes between the passes, into `micro_plans` and
/// `order`, and has `plan` begin with what joins the last pass to the rest: then Arena::gradients has the
/// sum. `sizes`: those of the micro-batches, the larger ones first; two different ones at most. Returns the
/// losses of all. Throws std::logic_error when the model's layers work on the whole global batch.
LossList plan_passes(const NetworkSpec& spec, std::span<const unsigned> sizes, TrainingPlan& training);

} // namespace towers
