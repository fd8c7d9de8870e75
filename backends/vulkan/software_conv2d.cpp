#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/spirv.h"

// The host side of shaders/software/.

namespace towers::vulkan {
namespace {

struct SoftwareConvParams { // as in shaders/software/conv2d.h
    In_f32 a, b, extra;
    In_f32x4 b_wide;
    Out_f32 c, bias_gradient;
    ConvShape shape;
    uint relu, bias, splits;
};

struct Shaders { // by rows of their tile
    std::span<const std::uint32_t> rows_8, rows_32;
};

unsigned ceil_div(std::uint64_t a, std::uint64_t b) { return unsigned((a + b - 1) / b); }

In_f32x4 wide(In_f32 narrow) { return {reinterpret_cast<const vec4*>(narrow.at)}; }

constexpr unsigned most_groups = 65535; // along an axis: what Vulkan guarantees

bool suits(const ConvShape& s) {
    return s.stride_y == 1 && s.stride_x == 1 && s.dilation_y == 1 && s.dilation_x == 1 && s.groups == 1;
}

std::optional<Dispatch> make(const DeviceInfo& info, const Shaders& shaders, const SoftwareConvParams& p,
                             std::uint64_t rows, unsigned columns, bool taps, bool quads) {
    const bool narrow = info.subgroup_size < 8;
    const glm::uvec3 groups{ceil_div(rows, narrow ? 8 : 32), ceil_div(columns, 4 * info.subgroup_size),
                            p.splits};
    if (groups.x > most_groups || groups.y > most_groups || groups.z > most_groups) return {};
    return Dispatch{narrow ? shaders.rows_8 : shaders.rows_32,
                    {info.subgroup_size, taps ? 1u : 0u, quads ? 1u : 0u},
                    ParameterBlock::of(p),
                    groups};
}

} // namespace

std::optional<Dispatch> software_conv2d(const Launch& launch, const DeviceInfo& info) {
    const unsigned chunk = info.subgroup_size < 8 ? 4 : 8;
    const unsigned tile_rows = info.subgroup_size < 8 ? 8 : 32;
    switch (launch.kernel) {
    case Kernel::conv2d_forward: {
        const auto p = launch.parameters.as<Conv2dForwardParams>();
        const ConvShape& s = p.shape;
        if (!suits(s)) return {};
        return make(info, {spirv_software_conv2d_forward_8, spirv_software_conv2d_forward_32},
                    {.a = p.x,
                     .b = p.w,
                     .extra = p.bias != 0 ? p.b : p.w, // something to read
                     .b_wide = wide(p.w),
                     .c = p.y,
                     .bias_gradient = {},
                     .shape = s,
                     .relu = p.relu,
                     .bias = p.bias,
                     .splits = 1},
                    std::uint64_t(s.batch) * s.out_height * s.out_width, s.out_channels,
                    s.in_channels % chunk == 0, s.out_channels % 4 == 0);
    }
    case Kernel::conv2d_backward_data: {
        const auto p = launch.parameters.as<Conv2dBackwardDataParams>();
        const ConvShape& s = p.shape;
        if (!suits(s)) return {};
        return make(info, {spirv_software_conv2d_backward_data_8, spirv_software_conv2d_backward_data_32},
                    {.a = p.dy,
                     .b = p.w,
                     .extra = p.x,
                     .b_wide = wide(p.w),
                     .c = p.dx,
                     .bias_gradient = {},
                     .shape = s,
                     .relu = p.relu,
                     .bias = 0,
                     .splits = 1},
                    std::uint64_t(s.batch) * s.in_height * s.in_width, s.in_channels,
                    s.out_channels % chunk == 0, false);
    }
    case Kernel::conv2d_backward_weights: {
        const auto p = launch.parameters.as<Conv2dBackwardWeightsParams>();
        const ConvShape& s = p.shape;
        if (!suits(s)) return {};
        return make(info,
                    {spirv_software_conv2d_backward_weights_8, spirv_software_conv2d_backward_weights_32},
                    {.a = p.x,
                     .b = p.dy,
                     .extra = {},
                     .b_wide = wide(p.dy),
                     .c = p.dw,
                     .bias_gradient = p.db,
                     .shape = s,
                     .relu = 0,
                     .bias = p.bias,
                     .splits = p.splits},
                    std::uint64_t(s.kernel_height) * s.kernel_width * s.in_channels, s.out_channels,
                    s.in_channels % tile_rows == 0, s.out_channels % 4 == 0);
    }
    default:
        return {};
    }
}

} // namespace towers::vulkan
