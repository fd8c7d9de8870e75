#include "backends/quads.h"

#include "backends/sharing.h"

#include <algorithm>
#include <set>
#include <vector>

namespace towers {
namespace {

constexpr SliceCosts slice_costs{.per_edge = 12, .whole = 0};

/// Shared memory of a workgroup: two slices of each matrix, each row of which has a quad more, and each slice
/// four
unsigned bytes_of(const Tile& tile) {
    const auto floats = [](unsigned length) { return slice_depth * (length + 4) + 16; };
    return 2 * 4 * (floats(tile.height) + floats(tile.width));
}

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

double cycles(const Products& products, const Tile& tile, unsigned parts, const DeviceFacts& facts) {
    return cycles_of(products, tile, parts, slice_costs, facts);
}

/// The best number of parts by estimate, and for measuring also a whole sum and those that fill the device
/// once and twice; ascending.
std::set<unsigned> numbers_of_parts(const Products& products, const Tile& tile, const DeviceFacts& facts) {
    if (facts.limits.parts != 0) return {facts.limits.parts};
    const unsigned most = most_parts(products, tile, facts);
    unsigned best = 1;
    for (unsigned parts = 2; parts <= most; ++parts)
        if (cycles(products, tile, parts, facts) < cycles(products, tile, best, facts)) best = parts;
    std::set<unsigned> numbers{1, best};
    for (const unsigned times : {1u, 2u})
        numbers.insert(
            unsigned(std::clamp<std::uint64_t>(times * facts.busy_groups / products.tiles(tile), 1, most)));
    return numbers;
}

} // namespace

bool has_room(const Tile& tile, const DeviceFacts& facts) {
    return bytes_of(tile) <= facts.shared_memory &&
           tile.height * tile.width <= tile.threads * facts.quads_elements;
}

std::vector<Offer> offers_quads(const Launch& launch, const DeviceFacts& facts) {
    std::vector<Offer> offers;
    if (!facts.quads || !fits(launch)) return offers;
    const Products products = *products_of(launch);
    for (const Tile& tile : quad_tiles) {
        if (!has_room(tile, facts)) continue;
        for (const unsigned parts : numbers_of_parts(products, tile, facts))
            offers.push_back({.groups = groups_within(products.tiles(tile) * parts, facts),
                              .tile = tile,
                              .parts = parts,
                              .cost = cycles(products, tile, parts, facts)});
    }
    return offers;
}

std::optional<Offer> offer_quads(const Launch& launch, const DeviceFacts& facts) {
    const std::vector<Offer> all = offers_quads(launch, facts);
    const auto best = std::ranges::min_element(all, {}, &Offer::cost);
    if (best == all.end()) return {};
    return *best;
}

} // namespace towers
