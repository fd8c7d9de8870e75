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

/// Whether a kernel has a sum that can be split.
bool splits(Kernel kernel);

/// As many workgroups, within what drivers and tests allow.
glm::uvec3 groups_within(std::uint64_t groups, const DeviceFacts& facts);

/// Into how many parts a launch's sum over pixels is split, where whole it would leave the device idle; 1 for
/// kernels without such a sum.
unsigned parts_of(const Launch& launch, const DeviceFacts& facts);

/// A launch whose sum over pixels is split.
struct SplitLaunch {
    Launch product;            ///< the launch itself, or one that writes the parts to scratch memory
    std::vector<Launch> sums;  ///< launches that add up the parts, after the product
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
