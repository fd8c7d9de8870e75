// How a GPU backend shares out a launch: its workgroups, and the parts of a sum that is split.
#pragma once

#include "backends/device.h"
#include "backends/tiles.h"

#include <span>
#include <vector>

namespace towers {

/// For tests: limits on how devices share out launches, which results must not depend on. Not for the
/// overrides of drivers that run on a CPU.
struct SharingLimits {
    unsigned most_groups = 0; ///< workgroups of a launch; 0: no limit
    unsigned splits = 0;      ///< of every sum that can be split; 0: as many as suit
};

/// What a backend knows of its device.
struct Capacity {
    unsigned busy_groups;   ///< workgroups that keep the device busy
    unsigned subgroup_size; ///< what most kernels run with
    SharingLimits limits = {};
};

/// Of the shared text.
struct Workgroups {
    unsigned count;
    std::optional<Tile> tile; ///< for tiled kernels
};
Workgroups workgroups_for(const Launch& launch, const Capacity& capacity);

/// A launch whose sum over pixels is split, where the launch alone would leave the device idle.
struct SplitLaunch {
    Launch product;            ///< the launch itself, or one that leaves its parts in scratch memory
    std::vector<Launch> sums;  ///< of these parts; they need what the product wrote
    std::size_t scratch_bytes; ///< 0: not split
};
/// `scratch`: the address of memory of the size that the result tells.
SplitLaunch split(const Launch& launch, const Capacity& capacity, std::uint64_t scratch);

/// How much scratch memory a recording needs: commands between two barriers (or timestamps) have each its
/// own, one after the other, and after the barrier it is used again.
std::size_t scratch_bytes(std::span<const Command> commands, const Capacity& capacity);

} // namespace towers
