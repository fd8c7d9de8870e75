#include "backends/quads.h"

#include "backends/sharing.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace towers {
namespace {

constexpr unsigned slice_depth = 16; // TILE_K

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

/// About how long a device takes, in units of the time that a workgroup takes for a slice of a tile of 64x64.
/// It is only good for comparing.
double time_of(const Products& products, const Tile& tile, unsigned parts, const DeviceFacts& facts) {
    // Multiply-adds, and what is loaded for them
    const double slice = (tile.height * tile.width + 32.0 * (tile.height + tile.width)) / 8192;
    const double ends = 1; // first loads, and the results
    const auto slices = double(ceil_div(ceil_div(products.depth, slice_depth), parts));
    const auto waves = double(ceil_div(products.tiles(tile) * parts, facts.busy_groups));
    // To add up the parts takes a barrier and a launch, then reads what was written.
    const double sum = parts == 1 ? 0 : 3 + double(parts) * double(products.elements()) / (1 << 19);
    return waves * (slices * slice + ends) + sum;
}

/// Numbers of parts that fill the device some times over, of at least four slices each
std::vector<unsigned> numbers_of_parts(const Launch& launch, const Products& products, const Tile& tile,
                                       const DeviceFacts& facts) {
    if (!splits(launch.kernel)) return {1};
    if (facts.limits.parts != 0) return {facts.limits.parts};
    const std::uint64_t most = products.depth / (4 * slice_depth), tiles = products.tiles(tile);
    std::vector<unsigned> numbers{1};
    for (unsigned waves = 1; waves <= 4; ++waves)
        if (const std::uint64_t parts = std::min(waves * facts.busy_groups / tiles, most); parts > 1)
            numbers.push_back(unsigned(parts));
    return numbers;
}

} // namespace

std::optional<Offer> offer_quads(const Launch& launch, const DeviceFacts& facts) {
    if (!facts.quads || !fits(launch)) return {};
    const Products products = *products_of(launch);
    std::optional<Offer> best;
    double least = std::numeric_limits<double>::infinity();
    for (const Tile& tile : quad_tiles) {
        if (bytes_of(tile) > facts.shared_memory) continue;
        for (const unsigned parts : numbers_of_parts(launch, products, tile, facts)) {
            const double time = time_of(products, tile, parts, facts);
            if (time >= least) continue;
            least = time;
            best = Offer{
                .groups = groups_within(products.tiles(tile) * parts, facts), .tile = tile, .parts = parts};
        }
    }
    return best;
}

} // namespace towers
