#include "backends/tiles.h"

#include <algorithm>

namespace towers {
namespace {

/// For `groups` products of `m` rows and `n` columns: narrow if the products are narrow, tall if that leaves
/// enough tiles to fill the device.
Tile tile(std::uint64_t m, unsigned n, unsigned groups, const DeviceInfo& info) {
    const auto* const found =
        std::find_if(tile_widths.begin(), tile_widths.end(), [n](unsigned width) { return n <= width; });
    const unsigned width = found == tile_widths.end() ? tile_widths.back() : *found;
    const std::uint64_t columns = std::uint64_t(groups) * ((n + width - 1) / width);
    const bool tall = (m + tile_heights[2] - 1) / tile_heights[2] * columns >= info.parallel_groups;
    return {tall ? tile_heights[2] : m <= tile_heights[0] ? tile_heights[0] : tile_heights[1], width};
}

} // namespace

bool is_tiled(Kernel kernel) {
    switch (kernel) {
#define TOWERS_KERNEL(name, Params, size)
#define TOWERS_TILED_KERNEL(name, Params, size) case Kernel::name:
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
        return true;
    default:
        return false;
    }
}

std::optional<Tile> tile_of(const Launch& launch, const DeviceInfo& info) {
    switch (launch.kernel) {
    case Kernel::conv2d_forward: {
        const ConvShape s = launch.parameters.as<Conv2dForwardParams>().shape;
        return tile(std::uint64_t(s.batch) * s.out_height * s.out_width, s.out_channels / s.groups, s.groups,
                    info);
    }
    case Kernel::conv2d_backward_data: {
        const ConvShape s = launch.parameters.as<Conv2dBackwardDataParams>().shape;
        return tile(std::uint64_t(s.batch) * s.in_height * s.in_width, s.in_channels / s.groups, s.groups,
                    info);
    }
    case Kernel::conv2d_backward_weights: {
        const auto p = launch.parameters.as<Conv2dBackwardWeightsParams>();
        const ConvShape& s = p.shape;
        return tile(std::uint64_t(s.kernel_height) * s.kernel_width * (s.in_channels / s.groups) + p.bias,
                    s.out_channels / s.groups, s.groups, info);
    }
    default:
        return {};
    }
}

} // namespace towers
