// Winograd's convolutions on a GPU: F(2x2) and F(4x4) for windows of 3x3 and 5x5 (backends/cpu/winograd.h
// explains the method). A first stage transforms the tiles of the images and the weights (for the gradient of
// the weights: and the tiles of dy), the second multiplies them, at each point all tiles and channels, as a
// product of so many groups by quads, and the last transforms the products to results.
#pragma once

#include "backends/launch/variants.h"

namespace towers {

/// Takes a launch if the estimate is lower than that of the source by quads.
std::optional<LaunchConfig> winograd_config(const Launch& launch, const DeviceFacts& facts);
/// With each size of tile and each tile of the product, for strides, dilation and groups of 1, and channels
/// that are multiples of 4. `parts` are those of the sum over tiles in the gradient of the weights.
std::vector<LaunchConfig> winograd_configs(const Launch& launch, const DeviceFacts& facts);
StagedLaunch winograd_stages(const Launch& launch, const LaunchConfig& config, const DeviceFacts& facts,
                             std::uint64_t scratch);

} // namespace towers
