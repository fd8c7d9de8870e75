// The built-in data set, for a machine with no data.
#pragma once

#include "engine/data/source.h"

#include <cstdint>

namespace towers {

/// Draws images of ten classes, equally many of each. Place, size, rotation, colours and noise vary; no class
/// is another's mirror image or negative, depends on the colours, or is lost in a crop of three quarters of
/// each side. The same seed gives the same bytes, except for the rounding of a compiler that fuses
/// multiplications with additions. At another size the same seed draws the same pictures at that size, and in
/// grey their brightness; the noise is each pixel's own. In an oblong image the shapes have the size that the
/// shorter side allows. Below 16 pixels some classes are hard to tell apart.
/// `size` has 1 or 3 channels, else std::invalid_argument. `count` 0 stands for shapes_count().
Dataset make_shapes(Split split, std::uint64_t seed, ImageSize size = {32, 32, 3}, std::size_t count = 0);

/// 10,000 to train on or 2,000 to test on; fewer where they would have more than 64 MiB, but at least 500,
/// and as many of each class.
std::size_t shapes_count(Split split, const ImageSize& size);

} // namespace towers
