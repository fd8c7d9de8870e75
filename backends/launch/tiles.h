// The tiles of the tiled kernels, and the choice of one for a launch of the shared source
// (shaders/gemm_tile.h).
#pragma once

#include "backends/arithmetic.h"
#include "backends/kernels.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace towers {

/// TILE_M and TILE_N: rows and columns of the product that a workgroup computes; THREADS: its invocations.
struct Tile {
    unsigned height, width, threads;
};

/// Of the shared source
constexpr Tile tiles[] = {
#define TOWERS_TILE(height, width) {height, width, 256},
#include "shaders/tiles.def"
};

/// Of the source by quads (shaders/gemm_quads.h)
constexpr Tile quad_tiles[] = {
#define TOWERS_QUAD_TILE(height, width, threads) {height, width, threads},
#include "shaders/tiles.def"
};

/// Of the source by fragments (shaders/gemm_fragments.h)
constexpr Tile fragment_tiles[] = {
#define TOWERS_FRAGMENT_TILE(height, width, threads, groups) {height, width, threads},
#include "shaders/tiles.def"
};

/// The shared memory of a workgroup with the largest tile: two slices, 16 deep, the first with one extra word
/// per row.
constexpr unsigned largest_tile_bytes = [] {
    unsigned largest = 0;
    for (const Tile& tile : tiles) largest = std::max(largest, 16 * (tile.height + 1 + tile.width) * 4);
    return largest;
}();

/// A tiled kernel's launch: so many products of `rows` x `columns`, each of which tiles cover. An element is
/// a sum over `depth`. Where products differ, these are the largest numbers.
struct Products {
    std::uint64_t count, rows;
    unsigned columns;
    std::uint64_t depth;
    std::uint64_t mean_depth = depth; ///< of tiles; of those that no product has, 0

    std::uint64_t elements() const { return count * rows * columns; }
    std::uint64_t tiles(const Tile& tile) const {
        return count * ceil_div(rows, tile.height) * ceil_div(columns, tile.width);
    }
};

/// For each parameter block of a tiled kernel
Products products_of(const Conv2dForwardParams& p);
Products products_of(const Conv2dBackwardDataParams& p);
Products products_of(const Conv2dBackwardWeightsParams& p);
/// None for kernels that are not tiled.
std::optional<Products> products_of(const Launch& launch);

/// The best tile of the list above. `busy_groups`: how many workgroups keep the device busy.
Tile tile_for(const Products& products, unsigned busy_groups);

} // namespace towers
