#include "backends/sharing.h"

#include "backends/arithmetic.h"

#include <algorithm>
#include <utility>

namespace towers {
namespace {

constexpr std::uint64_t most_loops = 4096;                      // 2^20 invocations fill any device
constexpr SliceCosts slice_costs{.per_edge = 40, .whole = 864}; // of gemm_tile.h

uint weights_of(const ConvShape& s) {
    return s.kernel_height * s.kernel_width * (s.in_channels / s.groups) * s.out_channels;
}

/// Splits launches one output after the other.
class Splitter {
public:
    Splitter(unsigned parts, std::uint64_t scratch) : parts_(parts), scratch_(scratch) {}

    /// Has `output`, whose elements `sum.count` counts, written to scratch memory and added up from there.
    void split(Out_f32& output, SumPartialsParams sum) {
        sum.partials = {reinterpret_cast<const float*>(scratch_ + bytes_)};
        sum.sum = output;
        sum.parts = parts_;
        output = {reinterpret_cast<float*>(scratch_ + bytes_)};
        bytes_ += aligned(sizeof(float) * parts_ * sum.count);
        sums_.push_back(launch(kernels::sum_partials, sum));
    }
    template<class Params>
    SplitLaunch product(Kernel kernel, Params parameters) {
        parameters.splits = parts_;
        return {{kernel, ParameterBlock::of(parameters)}, std::move(sums_), bytes_};
    }

private:
    unsigned parts_;
    std::uint64_t scratch_;
    std::size_t bytes_ = 0;
    std::vector<Launch> sums_;
};

SplitLaunch split_product(Kernel kernel, Conv2dForwardParams p, Splitter splitter) {
    const ConvShape& s = p.shape;
    splitter.split(p.y, {.b = p.b,
                         .count = s.batch * s.out_height * s.out_width * s.out_channels,
                         .channels = s.out_channels,
                         .bias = p.bias,
                         .relu = p.relu});
    return splitter.product(kernel, p);
}

SplitLaunch split_product(Kernel kernel, Conv2dBackwardDataParams p, Splitter splitter) {
    const ConvShape& s = p.shape;
    splitter.split(p.dx,
                   {.x = p.x, .count = s.batch * s.in_height * s.in_width * s.in_channels, .masked = p.relu});
    return splitter.product(kernel, p);
}

SplitLaunch split_product(Kernel kernel, Conv2dBackwardWeightsParams p, Splitter splitter) {
    splitter.split(p.dw, {.count = weights_of(p.shape)});
    if (p.bias != 0) splitter.split(p.db, {.count = p.shape.out_channels});
    return splitter.product(kernel, p);
}

} // namespace

glm::uvec3 groups_within(std::uint64_t groups, const DeviceFacts& facts) {
    constexpr std::uint64_t most = 65535; // per axis, which every driver guarantees
    const std::uint64_t limit = facts.limits.most_groups != 0 ? facts.limits.most_groups : most;
    return {unsigned(std::clamp<std::uint64_t>(groups, 1, limit)), 1, 1};
}

double cycles_of(const Products& products, const Tile& tile, unsigned parts, const SliceCosts& costs,
                 const DeviceFacts& facts) {
    const std::uint64_t units = std::max(1u, facts.busy_groups / 2), groups = products.tiles(tile) * parts;
    const double slice =
        (tile.height * tile.width + costs.per_edge * (tile.height + tile.width) + costs.whole) * slice_depth /
        128;
    const double ends = 1000;                        // first loads, and the results
    const double alone = groups <= units ? 1.25 : 1; // Nothing else runs while a workgroup waits.
    const auto slices = double(ceil_div(ceil_div(products.depth, slice_depth), parts));
    const double product = double(ceil_div(groups, units)) * (slices * slice * alone + ends);
    if (parts == 1) return product;
    // To add up the parts takes a barrier and a launch, which reads what was written, 8 bytes a cycle.
    return product + 5000 + 0.5 * (parts + 1) * double(products.elements()) / double(units);
}

unsigned parts_of(const Launch& launch, const DeviceFacts& facts) {
    const auto products = products_of(launch);
    if (!products && launch.kernel != Kernel::depthwise_conv2d_backward_weights) return 1;
    if (facts.limits.parts != 0) return facts.limits.parts;
    std::uint64_t wanted = 0, most = 0;
    if (products) {
        constexpr unsigned depth = 256; // that is worth a tile
        wanted = facts.busy_groups / products->tiles(tile_for(*products, facts.busy_groups));
        most = products->depth / depth;
    } else {
        const ConvShape s = launch.parameters.as<Conv2dBackwardWeightsParams>().shape;
        // An item reads four channels at once, so a quarter of the invocations keep the memory busy.
        const unsigned at_once = kernel_info(launch.kernel).workgroup_size / 4;
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
        offer.cost = cycles_of(*products, *offer.tile, offer.parts, slice_costs, facts);
    } else {
        const std::uint64_t items = items_of(launch) * offer.parts;
        if (kernel.item == Item::subgroup) {
            const unsigned at_once = std::max(1u, kernel.workgroup_size / facts.subgroup_size);
            groups = std::max(ceil_div(items, at_once), std::min<std::uint64_t>(items, facts.busy_groups));
        } else {
            groups = ceil_div(items, kernel.workgroup_size);
        }
        groups = std::min(groups, most_loops);
    }
    offer.groups = groups_within(groups, facts);
    return offer;
}

std::vector<Offer> offers_shared_text(const Launch& launch, const DeviceFacts& facts) {
    std::vector<Offer> offers{*offer_shared_text(launch, facts)};
    const auto add = [&](const Offer& offer) {
        const auto same = [&](const Offer& each) {
            return alike(each, offer) && each.groups == offer.groups;
        };
        if (std::ranges::none_of(offers, same)) offers.push_back(offer);
    };
    if (const auto products = products_of(launch)) {
        const unsigned most_parts = parts_of(launch, facts);
        for (const Tile& tile : tiles)
            for (const unsigned parts : {facts.limits.parts != 0 ? most_parts : 1u, most_parts})
                add({.groups = groups_within(products->tiles(tile) * parts, facts),
                     .tile = tile,
                     .parts = parts,
                     .cost = cycles_of(*products, tile, parts, slice_costs, facts)});
    } else {
        const Offer usual = offers.front();
        for (const unsigned times : {1u, 4u}) {
            Offer fewer = usual;
            fewer.groups = groups_within(std::uint64_t(times) * facts.busy_groups, facts);
            if (fewer.groups.x < usual.groups.x) add(fewer);
        }
    }
    return offers;
}

SplitLaunch split(const Launch& launch, unsigned parts, std::uint64_t scratch) {
    if (parts == 1) return {launch, {}, 0};
    const Splitter splitter(parts, scratch);
    const auto split_as = [&](auto parameters) { return split_product(launch.kernel, parameters, splitter); };
    switch (launch.kernel) {
    case Kernel::conv2d_forward:
        return split_as(launch.parameters.as<Conv2dForwardParams>());
    case Kernel::conv2d_backward_data:
        return split_as(launch.parameters.as<Conv2dBackwardDataParams>());
    default:
        return split_as(launch.parameters.as<Conv2dBackwardWeightsParams>());
    }
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
