// The state that a training of a model keeps.
#pragma once

#include "engine/model/model.h"
#include "engine/optimizers/optimizer.h"
#include "engine/plan/state.h"

namespace towers {

/// `averages`: whether moving averages are kept.
StateLayout layout_state(const Model& model, const Optimizer& optimizer, bool averages);

} // namespace towers
