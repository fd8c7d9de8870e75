// Which tile of the tiled kernels' shared text (shaders/gemm_tile.h) suits a launch.
#pragma once

#include "backends/device.h"

#include <array>
#include <optional>

namespace towers {

/// TILE_M and TILE_N: rows and columns of the product that a workgroup computes.
struct Tile {
    unsigned height, width;
};

constexpr std::array<unsigned, 3> tile_heights = {32, 64, 128};
constexpr std::array<unsigned, 3> tile_widths = {16, 32, 64};

/// What a workgroup with the largest tile shares: two slices, 16 deep, the first with one more word per row.
constexpr unsigned largest_tile_bytes = 16 * (tile_heights.back() + 1 + tile_widths.back()) * 4;

/// Whether a kernel is tiled at all.
bool is_tiled(Kernel kernel);

/// Of the heights and widths above; nothing for kernels that are not tiled.
std::optional<Tile> tile_of(const Launch& launch, const DeviceInfo& info);

} // namespace towers
