// How a GPU backend shares out a kernel's shared text: its tile, its workgroups, and the parts of a sum.
#pragma once

#include "backends/device.h"
#include "backends/variants.h"

#include <functional>
#include <span>
#include <vector>

namespace towers {

/// Takes every launch.
std::optional<Offer> offer_shared_text(const Launch& launch, const DeviceFacts& facts);
/// That one first, then with other tiles and parts, or other numbers of workgroups.
std::vector<Offer> offers_shared_text(const Launch& launch, const DeviceFacts& facts);

/// The depth of the slices of which the tiled kernels' texts add up their products (TILE_K)
constexpr unsigned slice_depth = 16;

/// What the machine code of a tiled kernel's text executes for each element of a slice's depth beside a
/// multiply-add for each of the tile's elements, counted on NVIDIA cards with tests/tools/gpu_static.
struct SliceCosts {
    double per_edge; ///< for each of the tile's rows and columns
    double whole;    ///< for the tile
};

/// About how many cycles a card's processors take for products, of which each executes 128 multiply-adds a
/// cycle; the sum of the parts included.
double cycles_of(const Products& products, const Tile& tile, unsigned parts, const SliceCosts& costs,
                 const DeviceFacts& facts);

/// As many workgroups, within what drivers and tests allow.
glm::uvec3 groups_within(std::uint64_t groups, const DeviceFacts& facts);

/// Into how many parts a launch's sums are split, where whole they would leave the device idle; 1 for kernels
/// without such sums.
unsigned parts_of(const Launch& launch, const DeviceFacts& facts);

/// A launch whose sums are split.
struct SplitLaunch {
    Launch product;            ///< the launch itself, or one that writes the parts to scratch memory
    std::vector<Launch> sums;  ///< launches that add up the parts and finish them, after the product
    std::size_t scratch_bytes; ///< 0: not split
};
/// `scratch`: the address of memory with the size that the result says.
SplitLaunch split(const Launch& launch, unsigned parts, std::uint64_t scratch);

/// How much scratch memory a recording needs, whose launches are split as `parts_of_launch` says. The
/// launches between two barriers (or timestamps) each have their own, one after the other; after the barrier
/// it is used again.
std::size_t scratch_bytes(std::span<const Command> commands,
                          const std::function<unsigned(const Launch&)>& parts_of_launch);

} // namespace towers
