// What --data names.
#pragma once

#include "engine/data/dataset.h"

#include <cstdint>
#include <string>

namespace towers {

/// `source` is "shapes" (made from `seed`), or the path of a folder of CIFAR-10's binary files; a folder
/// called shapes is "./shapes". InputError as load_cifar10() says.
Dataset load_dataset(const std::string& source, Split split, std::uint64_t seed);

/// The same for a network that takes images of size `wanted`: shapes are drawn at that size (see
/// make_shapes()), files keep theirs.
Dataset load_dataset(const std::string& source, Split split, std::uint64_t seed, const ImageSize& wanted);

} // namespace towers
