#include "backends/vulkan/dispatch.h"

#include "backends/vulkan/spirv.h"

namespace towers::vulkan {
namespace {

std::span<const std::uint32_t> shared_text(Kernel kernel) {
    switch (kernel) {
#define TOWERS_KERNEL(name, Params, size)                                                                    \
    case Kernel::name: return spirv_##name;
#define TOWERS_TILED_KERNEL(name, Params, size) TOWERS_KERNEL(name, Params, size)
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    }
    return {};
}

/// TILE_M and TILE_N of a product of `m` rows and `n` columns (shaders/gemm_tile.h): narrow where it is narrow, tall
/// where that leaves enough tiles to fill the device.
std::vector<std::uint32_t> tile(std::uint64_t m, unsigned n, const DeviceInfo& info) {
    const unsigned tile_n = n <= 16 ? 16 : n <= 32 ? 32 : 64;
    const std::uint64_t columns = (n + tile_n - 1) / tile_n;
    const bool tall = (m + 127) / 128 * columns >= info.parallel_groups;
    return {tall ? 128u : m <= 32 ? 32u : 64u, tile_n};
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
        return tile(std::uint64_t(s.kernel_height) * s.kernel_width * s.in_channels + 1, s.out_channels, info);
    }
    default: return {};
    }
}

} // namespace

Dispatch dispatch_of(const Launch& launch, const DeviceInfo& info, bool overrides) {
    if (overrides && info.kind == DeviceKind::software)
        if (auto dispatch = software_conv2d(launch, info)) return *std::move(dispatch);
    return {shared_text(launch.kernel), constants_of(launch, info), launch.parameters, launch.groups};
}

} // namespace towers::vulkan
