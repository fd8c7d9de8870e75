#include "backends/launch/tiles.h"

#include <iterator>

namespace towers {

Products products_of(const Conv2dForwardParams& p) {
    const ConvShape& s = p.shape;
    return {s.groups, std::uint64_t(s.batch) * s.out_height * s.out_width, s.out_channels / s.groups,
            std::uint64_t(s.kernel_height) * s.kernel_width * (s.in_channels / s.groups)};
}

Products products_of(const Conv2dBackwardDataParams& p) {
    const ConvShape& s = p.shape;
    return {s.groups, std::uint64_t(s.batch) * s.in_height * s.in_width, s.in_channels / s.groups,
            std::uint64_t(s.kernel_height) * s.kernel_width * (s.out_channels / s.groups)};
}

Products products_of(const Conv2dBackwardWeightsParams& p) {
    const ConvShape& s = p.shape;
    return {s.groups, std::uint64_t(s.kernel_height) * s.kernel_width * (s.in_channels / s.groups) + p.bias,
            s.out_channels / s.groups, std::uint64_t(s.batch) * s.out_height * s.out_width};
}

std::optional<Products> products_of(const Launch& launch) {
    switch (launch.kernel) {
#define TOWERS_KERNEL(name, Params, size, items)
#define TOWERS_TILED_KERNEL(name, Params, size)                                                              \
    case Kernel::name:                                                                                       \
        return products_of(launch.parameters.as<Params>());
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    default:
        return {};
    }
}

Tile tile_for(const Products& products, unsigned busy_groups) {
    // Narrow if the products are narrow
    const auto* first = std::begin(tiles);
    while (products.columns > first->width && first->width < std::rbegin(tiles)->width) ++first;
    const auto* const end =
        std::find_if(first, std::end(tiles), [&](const Tile& each) { return each.width != first->width; });
    // Tall if that leaves enough tiles to fill the device
    const auto* const tallest = end - 1;
    if (products.tiles(*tallest) >= busy_groups) return *tallest;
    const auto* const holds =
        std::find_if(first, tallest, [&](const Tile& each) { return products.rows <= each.height; });
    return holds != tallest || first == tallest ? *holds : *(tallest - 1);
}

} // namespace towers
