// The built-in data set, for a machine with no data.
#pragma once

#include "engine/data/dataset.h"

#include <cstdint>

namespace towers {

/// Draws 32x32 colour images of ten classes, equally many of each: 10,000 to train on or 2,000 to test on.
/// Place, size, rotation, colours and noise vary; no class is another's mirror image or negative, depends on
/// the colours, or is lost in a 24x24 crop. The same seed gives the same bytes, except for the rounding of a
/// compiler that fuses multiplications with additions.
Dataset make_shapes(Split split, std::uint64_t seed);

} // namespace towers
