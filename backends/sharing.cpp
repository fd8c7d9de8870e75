#include "backends/sharing.h"

#include <algorithm>

namespace towers {
namespace {

std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

struct SplitSum {
    unsigned parts;
    uint weights, biases; ///< elements of dw and db
};

/// Few tiles, or items, leave a wide device idle, so the sum over pixels is then split as well.
SplitSum split_sum(Kernel kernel, const Conv2dBackwardWeightsParams& p, const Capacity& capacity) {
    const ConvShape& s = p.shape;
    const uint taps = s.kernel_height * s.kernel_width * (s.in_channels / s.groups);
    SplitSum sum{1, taps * s.out_channels, p.bias * s.out_channels};
    std::uint64_t wanted = 0, most = 0;
    if (kernel == Kernel::conv2d_backward_weights) {
        constexpr unsigned tile = 64, depth = 256; // tiles in the middle of the list; pixels worth a tile
        const std::uint64_t all =
            s.groups * ceil_div(taps + p.bias, tile) * ceil_div(s.out_channels / s.groups, tile);
        wanted = capacity.busy_groups / all;
        most = std::uint64_t(s.batch) * s.out_height * s.out_width / depth;
    } else {
        wanted = std::uint64_t(capacity.busy_groups) * kernel_info(kernel).workgroup_size /
                 (sum.weights + sum.biases);
        most = std::uint64_t(s.batch) * s.out_height;
    }
    sum.parts = unsigned(std::clamp<std::uint64_t>(wanted, 1, std::max<std::uint64_t>(1, most)));
    if (capacity.limits.splits != 0) sum.parts = capacity.limits.splits;
    return sum;
}

Launch add_up(std::uint64_t partials, Out_f32 sum, unsigned parts, uint count) {
    return launch(
        kernels::sum_partials,
        {.partials = {reinterpret_cast<const float*>(partials)}, .sum = sum, .parts = parts, .count = count});
}

} // namespace

Workgroups workgroups_for(const Launch& launch, const Capacity& capacity) {
    constexpr std::uint64_t most_tiles = 65535; // along an axis: what every driver guarantees
    constexpr std::uint64_t most_loops = 4096;  // 2^20 invocations fill any device
    const KernelInfo& kernel = kernel_info(launch.kernel);
    Workgroups found{};
    std::uint64_t wanted;
    if (const auto products = products_of(launch)) {
        found.tile = tile_for(*products, capacity.busy_groups);
        wanted = std::min(products->tiles(*found.tile) * products->parts, most_tiles);
    } else {
        const unsigned items_at_once = kernel.item == Item::subgroup
                                           ? std::max(1u, kernel.workgroup_size / capacity.subgroup_size)
                                           : kernel.workgroup_size;
        wanted = std::min(ceil_div(items_of(launch), items_at_once), most_loops);
    }
    if (capacity.limits.most_groups != 0)
        wanted = std::min<std::uint64_t>(wanted, capacity.limits.most_groups);
    found.count = unsigned(std::max<std::uint64_t>(wanted, 1));
    return found;
}

SplitLaunch split(const Launch& launch, const Capacity& capacity, std::uint64_t scratch) {
    if (launch.kernel != Kernel::conv2d_backward_weights &&
        launch.kernel != Kernel::depthwise_conv2d_backward_weights)
        return {launch, {}, 0};
    auto p = launch.parameters.as<Conv2dBackwardWeightsParams>();
    const SplitSum sum = split_sum(launch.kernel, p, capacity);
    p.splits = sum.parts;
    SplitLaunch result{launch, {}, 0};
    if (sum.parts > 1) {
        const std::size_t weight_bytes = aligned(sizeof(float) * sum.parts * sum.weights);
        result.scratch_bytes = weight_bytes + aligned(sizeof(float) * sum.parts * sum.biases);
        result.sums.push_back(add_up(scratch, p.dw, sum.parts, sum.weights));
        p.dw = {reinterpret_cast<float*>(scratch)};
        if (p.bias != 0) {
            result.sums.push_back(add_up(scratch + weight_bytes, p.db, sum.parts, sum.biases));
            p.db = {reinterpret_cast<float*>(scratch + weight_bytes)};
        }
    }
    result.product.parameters = ParameterBlock::of(p);
    return result;
}

std::size_t scratch_bytes(std::span<const Command> commands, const Capacity& capacity) {
    std::size_t most = 0, here = 0;
    for (const Command& command : commands) {
        if (const auto* launch = std::get_if<Launch>(&command)) {
            here += split(*launch, capacity, 0).scratch_bytes;
            most = std::max(most, here);
        } else if (!std::holds_alternative<Copy>(command)) {
            here = 0;
        }
    }
    return most;
}

} // namespace towers
