// What the towers of a run have done, as a table.
#pragma once

#include "engine/train/trainer.h"

#include <string>

namespace towers {

/// Of several towers; a line each, and one for all together.
std::string tower_table(const Trainer& trainer);

} // namespace towers
