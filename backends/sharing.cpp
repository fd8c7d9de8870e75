#include "backends/sharing.h"

#include "backends/arithmetic.h"

#include <algorithm>

namespace towers {
namespace {

constexpr std::uint64_t most_loops = 4096; // 2^20 invocations fill any device

/// The elements of dw
uint weights_of(const ConvShape& s) {
    return s.kernel_height * s.kernel_width * (s.in_channels / s.groups) * s.out_channels;
}

Launch add_up(std::uint64_t partials, Out_f32 sum, unsigned parts, uint count) {
    return launch(
        kernels::sum_partials,
        {.partials = {reinterpret_cast<const float*>(partials)}, .sum = sum, .parts = parts, .count = count});
}

} // namespace

bool splits(Kernel kernel) {
    return kernel == Kernel::conv2d_backward_weights || kernel == Kernel::depthwise_conv2d_backward_weights;
}

glm::uvec3 groups_within(std::uint64_t groups, const DeviceFacts& facts) {
    constexpr std::uint64_t most = 65535; // per axis, which every driver guarantees
    const std::uint64_t limit = facts.limits.most_groups != 0 ? facts.limits.most_groups : most;
    return {unsigned(std::clamp<std::uint64_t>(groups, 1, limit)), 1, 1};
}

unsigned parts_of(const Launch& launch, const DeviceFacts& facts) {
    if (!splits(launch.kernel)) return 1;
    if (facts.limits.parts != 0) return facts.limits.parts;
    const ConvShape s = launch.parameters.as<Conv2dBackwardWeightsParams>().shape;
    std::uint64_t wanted = 0, most = 0;
    if (const auto products = products_of(launch)) {
        constexpr unsigned depth = 256; // pixels that are worth a tile
        wanted = facts.busy_groups / products->tiles(tile_for(*products, facts.busy_groups));
        most = products->depth / depth;
    } else {
        const unsigned at_once = kernel_info(launch.kernel).workgroup_size;
        wanted = std::uint64_t(facts.busy_groups) * at_once / items_of(launch);
        most = std::uint64_t(s.batch) * s.out_height;
    }
    return unsigned(std::clamp<std::uint64_t>(wanted, 1, std::max<std::uint64_t>(1, most)));
}

std::optional<Offer> offer_shared_text(const Launch& launch, const DeviceFacts& facts) {
    const KernelInfo& kernel = kernel_info(launch.kernel);
    Offer offer{.parts = parts_of(launch, facts)};
    std::uint64_t groups = 0;
    if (const auto products = products_of(launch)) {
        offer.tile = tile_for(*products, facts.busy_groups);
        groups = products->tiles(*offer.tile) * offer.parts;
    } else {
        const unsigned at_once = kernel.item == Item::subgroup
                                     ? std::max(1u, kernel.workgroup_size / facts.subgroup_size)
                                     : kernel.workgroup_size;
        groups = std::min(ceil_div(items_of(launch) * offer.parts, at_once), most_loops);
    }
    offer.groups = groups_within(groups, facts);
    return offer;
}

SplitLaunch split(const Launch& launch, unsigned parts, std::uint64_t scratch) {
    SplitLaunch result{launch, {}, 0};
    if (parts == 1) return result;
    auto p = launch.parameters.as<Conv2dBackwardWeightsParams>();
    const uint weights = weights_of(p.shape), biases = p.bias * p.shape.out_channels;
    const std::size_t weight_bytes = aligned(sizeof(float) * parts * weights);
    result.scratch_bytes = weight_bytes + aligned(sizeof(float) * parts * biases);
    result.sums.push_back(add_up(scratch, p.dw, parts, weights));
    p.dw = {reinterpret_cast<float*>(scratch)};
    if (p.bias != 0) {
        result.sums.push_back(add_up(scratch + weight_bytes, p.db, parts, biases));
        p.db = {reinterpret_cast<float*>(scratch + weight_bytes)};
    }
    p.splits = parts;
    result.product.parameters = ParameterBlock::of(p);
    return result;
}

std::size_t scratch_bytes(std::span<const Command> commands,
                          const std::function<unsigned(const Launch&)>& parts_of_launch) {
    std::size_t most = 0, here = 0;
    for (const Command& command : commands) {
        if (const auto* launch = std::get_if<Launch>(&command)) {
            here += split(*launch, parts_of_launch(*launch), 0).scratch_bytes;
            most = std::max(most, here);
        } else if (!std::holds_alternative<Copy>(command)) {
            here = 0;
        }
    }
    return most;
}

} // namespace towers
