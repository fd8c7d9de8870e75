#include "backends/vulkan/software_conv2d.h"

#include "backends/arithmetic.h"
#include "backends/launch/shared_source.h"
#include "backends/vulkan/spirv.h"

namespace towers::vulkan {
namespace {

struct SoftwareConvParams { // as in shaders/software/conv2d.h
    In_f32 a, b, extra;
    In_f32x4 b_wide;
    Out_f32 c, bias_gradient;
    ConvShape shape;
    uint relu, bias, splits;
};

/// The source for a launch, which makes a product of `rows` x `columns`.
struct Source {
    std::span<const std::uint32_t> rows_8, rows_32; ///< by rows of its tile
    std::uint64_t rows;
    unsigned columns;
    bool taps, quads; ///< its constants of these names
    SoftwareConvParams parameters;
};

bool narrow(const DeviceFacts& facts) { return facts.subgroup_size < 8; }

In_f32x4 wide(In_f32 narrow) { return {reinterpret_cast<const vec4*>(narrow.at)}; }

Source source_of(const Conv2dForwardParams& p, const DeviceFacts& facts) {
    const ConvShape& s = p.shape;
    return {.rows_8 = spirv_software_conv2d_forward_8,
            .rows_32 = spirv_software_conv2d_forward_32,
            .rows = std::uint64_t(s.batch) * s.out_height * s.out_width,
            .columns = s.out_channels,
            .taps = s.in_channels % (narrow(facts) ? 4 : 8) == 0,
            .quads = s.out_channels % 4 == 0,
            .parameters = {.a = p.x,
                           .b = p.w,
                           .extra = p.bias != 0 ? p.b : p.w, // any readable address
                           .b_wide = wide(p.w),
                           .c = p.y,
                           .bias_gradient = {},
                           .shape = s,
                           .relu = p.relu,
                           .bias = p.bias,
                           .splits = 1}};
}

Source source_of(const Conv2dBackwardDataParams& p, const DeviceFacts& facts) {
    const ConvShape& s = p.shape;
    return {.rows_8 = spirv_software_conv2d_backward_data_8,
            .rows_32 = spirv_software_conv2d_backward_data_32,
            .rows = std::uint64_t(s.batch) * s.in_height * s.in_width,
            .columns = s.in_channels,
            .taps = s.out_channels % (narrow(facts) ? 4 : 8) == 0,
            .quads = false,
            .parameters = {.a = p.dy,
                           .b = p.w,
                           .extra = p.x,
                           .b_wide = wide(p.w),
                           .c = p.dx,
                           .bias_gradient = {},
                           .shape = s,
                           .relu = p.relu,
                           .bias = 0,
                           .splits = 1}};
}

Source source_of(const Conv2dBackwardWeightsParams& p, const DeviceFacts& facts) {
    const ConvShape& s = p.shape;
    return {.rows_8 = spirv_software_conv2d_backward_weights_8,
            .rows_32 = spirv_software_conv2d_backward_weights_32,
            .rows = std::uint64_t(s.kernel_height) * s.kernel_width * s.in_channels,
            .columns = s.out_channels,
            .taps = s.in_channels % (narrow(facts) ? 8 : 32) == 0,
            .quads = s.out_channels % 4 == 0,
            .parameters = {.a = p.x,
                           .b = p.dy,
                           .extra = {},
                           .b_wide = wide(p.dy),
                           .c = p.dw,
                           .bias_gradient = p.db,
                           .shape = s,
                           .relu = 0,
                           .bias = p.bias,
                           .splits = p.splits}};
}

Source source_of(const Launch& launch, const DeviceFacts& facts) {
    if (launch.kernel == Kernel::conv2d_forward)
        return source_of(launch.parameters.as<Conv2dForwardParams>(), facts);
    if (launch.kernel == Kernel::conv2d_backward_data)
        return source_of(launch.parameters.as<Conv2dBackwardDataParams>(), facts);
    return source_of(launch.parameters.as<Conv2dBackwardWeightsParams>(), facts);
}

} // namespace

std::optional<LaunchConfig> software_conv2d_config(const Launch& launch, const DeviceFacts& facts) {
    constexpr unsigned most_groups = 65535; // per axis, which Vulkan guarantees
    if (!facts.software) return {};
    const Source source = source_of(launch, facts);
    const ConvShape& s = source.parameters.shape;
    if (s.stride_y != 1 || s.stride_x != 1 || s.dilation_y != 1 || s.dilation_x != 1 || s.groups != 1)
        return {};
    const std::uint64_t rows = ceil_div(source.rows, narrow(facts) ? 8 : 32);
    const std::uint64_t columns = ceil_div(source.columns, 4 * facts.subgroup_size);
    const unsigned splits = launch.kernel == Kernel::conv2d_backward_weights ? splits_of(launch, facts) : 1;
    if (rows > most_groups || columns > most_groups || splits > most_groups) return {};
    return LaunchConfig{.groups = {unsigned(rows), unsigned(columns), splits}, .splits = splits};
}

Dispatch software_conv2d(const Launch& launch, const LaunchConfig& config, const DeviceFacts& facts) {
    const Source source = source_of(launch, facts);
    return {narrow(facts) ? source.rows_8 : source.rows_32,
            {facts.subgroup_size, source.taps ? 1u : 0u, source.quads ? 1u : 0u},
            ParameterBlock::of(source.parameters),
            config.groups};
}

} // namespace towers::vulkan
