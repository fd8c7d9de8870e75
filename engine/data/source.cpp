#include "engine/data/source.h"

#include "engine/data/cifar10.h"
#include "engine/data/shapes.h"

namespace towers {

Dataset load_dataset(const std::string& source, Split split, std::uint64_t seed) {
    return load_dataset(source, split, seed, {32, 32, 3});
}

Dataset load_dataset(const std::string& source, Split split, std::uint64_t seed, const ImageSize& wanted) {
    return source == "shapes" ? make_shapes(split, seed, wanted) : load_cifar10(source, split);
}

} // namespace towers
