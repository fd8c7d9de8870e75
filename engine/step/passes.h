// The passes of a step in micro-batches.
#pragma once

#include "engine/step/network.h"

#include <span>

namespace towers {

/// Plans, into `micro_plans` and `order`, a pass for each size of micro-batch and what comes between passes.
/// `plan` begins by adding the last pass's results, so that Arena::gradients has the sum. `sizes`: the
/// micro-batches' sizes, the larger ones first; at most two different ones. Returns all losses. Throws
/// std::logic_error if a layer needs the whole global batch.
LossList plan_passes(const NetworkSpec& spec, std::span<const unsigned> sizes, TrainingPlan& training);

} // namespace towers
