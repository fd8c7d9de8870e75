// The layout of the state of a model's training.
#pragma once

#include "engine/model/model.h"
#include "engine/optimizers/optimizer.h"
#include "engine/plan/state.h"

namespace towers {

/// `averages`: whether moving averages are kept.
StateLayout layout_state(const Model& model, const Optimizer& optimizer, bool averages);

} // namespace towers
