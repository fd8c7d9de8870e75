#include "backends/vulkan/dispatch.h"

#include "backends/vulkan/spirv.h"

#include <algorithm>
#include <iterator>

namespace towers::vulkan {
namespace {

std::span<const std::uint32_t> shared_text(Kernel kernel) {
    switch (kernel) {
#define TOWERS_KERNEL(name, Params, size)                                                                    \
    case Kernel::name:                                                                                       \
        return spirv_##name;
#define TOWERS_TILED_KERNEL(name, Params, size) TOWERS_KERNEL(name, Params, size)
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    }
    return {};
}

constexpr unsigned tile_heights[] = {32, 64, 128};
constexpr unsigned tile_widths[] = {16, 32, 64};

/// TILE_M and TILE_N of a product of `m` rows and `n` columns (shaders/gemm_tile.h): narrow where it is
/// narrow, tall where that leaves enough tiles to fill the device.
std::vector<std::uint32_t> tile(std::uint64_t m, unsigned n, const DeviceInfo& info) {
    const auto wide_enough = [n](unsigned width) { return n <= width; };
    const auto* const found = std::find_if(std::begin(tile_widths), std::end(tile_widths), wide_enough);
    const unsigned width = found == std::end(tile_widths) ? tile_widths[2] : *found;
    const std::uint64_t columns = (n + width - 1) / width;
    const bool tall = (m + tile_heights[2] - 1) / tile_heights[2] * columns >= info.parallel_groups;
    return {tall ? tile_heights[2] : m <= tile_heights[0] ? tile_heights[0] : tile_heights[1], width};
}

std::vector<std::uint32_t> constants_of(const Launch& launch, const DeviceInfo& info) {
    switch (launch.kernel) {
    case Kernel::conv2d_forward: {
        const ConvShape s = launch.parameters.as<Conv2dForwardParams>().shape;
        return tile(std::uint64_t(s.batch) * s.out_height * s.out_width, s.out_channels, info);
    }
    case Kernel::conv2d_backward_data: {
        const ConvShape s = launch.parameters.as<Conv2dBackwardDataParams>().shape;
        return tile(std::uint64_t(s.batch) * s.in_height * s.in_width, s.in_channels, info);
    }
    case Kernel::conv2d_backward_weights: {
        const auto p = launch.parameters.as<Conv2dBackwardWeightsParams>();
        const ConvShape& s = p.shape;
        return tile(std::uint64_t(s.kernel_height) * s.kernel_width * s.in_channels + 1, s.out_channels,
                    info);
    }
    default:
        return {};
    }
}

} // namespace

Dispatch dispatch_of(const Launch& launch, const DeviceInfo& info, bool overrides) {
    if (overrides && info.kind == DeviceKind::software)
        if (auto dispatch = software_conv2d(launch, info)) return *std::move(dispatch);
    return {shared_text(launch.kernel), constants_of(launch, info), launch.parameters, launch.groups};
}

std::vector<Dispatch> all_hardware_dispatches() {
    std::vector<Dispatch> all;
    for (std::size_t i = 0; i < all_kernels().size(); ++i) {
        const std::span<const std::uint32_t> code = shared_text(Kernel(i));
        const bool tiled = Kernel(i) == Kernel::conv2d_forward || Kernel(i) == Kernel::conv2d_backward_data ||
                           Kernel(i) == Kernel::conv2d_backward_weights;
        if (!tiled) all.push_back({code, {}, {}, {1, 1, 1}});
        for (const unsigned height : tile_heights)
            for (const unsigned width : tile_widths)
                if (tiled) all.push_back({code, {height, width}, {}, {1, 1, 1}});
    }
    return all;
}

} // namespace towers::vulkan
