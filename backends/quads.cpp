#include "backends/quads.h"

#include "backends/sharing.h"

#include <algorithm>

namespace towers {
namespace {

constexpr SliceCosts slice_costs{.per_edge = 12, .whole = 0};

/// Shared memory of a workgroup: two slices of each matrix, each row of which has a quad more
unsigned bytes_of(const Tile& tile) { return 2 * slice_depth * (tile.height + 4 + tile.width + 4) * 4; }

bool fits(const Launch& launch) {
    const auto fours = [](const ConvShape& s) {
        return s.in_channels / s.groups % 4 == 0 && s.out_channels / s.groups % 4 == 0;
    };
    switch (launch.kernel) {
    case Kernel::conv2d_forward:
        return fours(launch.parameters.as<Conv2dForwardParams>().shape);
    case Kernel::conv2d_backward_weights:
        return fours(launch.parameters.as<Conv2dBackwardWeightsParams>().shape);
    case Kernel::conv2d_backward_data: {
        const ConvShape s = launch.parameters.as<Conv2dBackwardDataParams>().shape;
        return fours(s) && s.stride_y == 1 && s.stride_x == 1;
    }
    default:
        return false;
    }
}

/// The most parts that may be worth trying: they fill the device some times over, and have two slices each.
unsigned most_parts(const Products& products, const Tile& tile, const DeviceFacts& facts) {
    const std::uint64_t most = products.depth / (2 * slice_depth);
    return unsigned(std::clamp<std::uint64_t>(4 * facts.busy_groups / products.tiles(tile), 1,
                                              std::max<std::uint64_t>(1, most)));
}

} // namespace

std::optional<Offer> offer_quads(const Launch& launch, const DeviceFacts& facts) {
    if (!facts.quads || !fits(launch)) return {};
    const Products products = *products_of(launch);
    std::optional<Offer> best;
    for (const Tile& tile : quad_tiles) {
        if (bytes_of(tile) > facts.shared_memory) continue;
        const unsigned most =
            facts.limits.parts != 0 ? facts.limits.parts : most_parts(products, tile, facts);
        for (unsigned parts = std::max(1u, facts.limits.parts); parts <= most; ++parts) {
            const double cycles = cycles_of(products, tile, parts, slice_costs, facts);
            if (best && cycles >= best->cycles) continue;
            best = Offer{.groups = groups_within(products.tiles(tile) * parts, facts),
                         .tile = tile,
                         .parts = parts,
                         .cycles = cycles};
        }
    }
    return best;
}

} // namespace towers
