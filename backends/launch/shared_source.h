// How a GPU backend configures a launch of a kernel's shared source: its tile, its workgroups, and the parts
// of a sum.
#pragma once

#include "backends/launch/variants.h"

#include <vector>

namespace towers {

/// Takes every launch.
std::optional<LaunchConfig> shared_source_config(const Launch& launch, const DeviceFacts& facts);
/// That one first, then with other tiles and parts, or other numbers of workgroups.
std::vector<LaunchConfig> shared_source_configs(const Launch& launch, const DeviceFacts& facts);

/// As many workgroups, within what drivers and tests allow.
glm::uvec3 groups_within(std::uint64_t groups, const DeviceFacts& facts);

/// Into how many parts a launch's sums are split at least, since one float32 that takes many pixels one after
/// another loses digits: the gradient of few weights. (Parts of many would take too long to add up.) And
/// where a driver ends loops, so that it ends none of the sum's.
unsigned least_splits(const Launch& launch, const Products& products, const DeviceFacts& facts);

/// Into how many parts a launch's sums are split, where whole they would leave the device idle; 1 for kernels
/// without such sums.
unsigned splits_of(const Launch& launch, const DeviceFacts& facts);

} // namespace towers
