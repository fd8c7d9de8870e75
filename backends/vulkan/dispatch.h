// Which shader runs a launch on a device, with which constants, parameters and workgroups: the shared kernel
// text with a tile that suits, or an override.
#pragma once

#include "backends/device.h"
#include "backends/sharing.h"

#include <cstdint>
#include <glm/vec3.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace towers::vulkan {

struct Dispatch {
    std::span<const std::uint32_t> code;  ///< SPIR-V, of static lifetime
    std::vector<std::uint32_t> constants; ///< specialization constants 0, 1, ...
    ParameterBlock parameters;
    glm::uvec3 groups;
};

/// What the driver's word and ours tell of a device. `limits`: see SharingLimits.
Capacity capacity_of(const DeviceInfo& info, const SharingLimits& limits);

Dispatch dispatch_of(const Launch& launch, const DeviceInfo& info, const Capacity& capacity, bool overrides);

/// Whether a shader's invocations know of their subgroups.
bool uses_subgroups(std::span<const std::uint32_t> code);

/// The shader with a promise asked for (SignedZeroInfNanPreserve): that the driver's compiler takes no
/// float32 for finite or for other than -0, as some would, and that NaN stays unequal to itself.
std::vector<std::uint32_t> keeping_nan(std::span<const std::uint32_t> code);

/// One of each pipeline that dispatch_of() can ask for on a hardware device, by kernel and tile:
/// `conv2d_forward 64x16`.
std::map<std::string, Dispatch> all_hardware_dispatches();

/// Convolutions for drivers that run on a CPU; nothing for other launches, strides and groups above 1, and
/// more tiles than one dispatch takes.
std::optional<Dispatch> software_conv2d(const Launch& launch, const DeviceInfo& info);

} // namespace towers::vulkan
