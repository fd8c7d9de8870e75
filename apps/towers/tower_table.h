// A table of what a run's towers have done.
#pragma once

#include "engine/train/trainer.h"

#include <string>

namespace towers {

/// The table for several towers: a line for each, and one for all together.
std::string tower_table(const Trainer& trainer);

} // namespace towers
