// The variants of a Vulkan device: which shader runs a launch, with which constants, parameters and
// workgroups.
#pragma once

#include "backends/backend.h"
#include "backends/launch/variants.h"
#include "backends/vulkan/matrix_units.h"
#include "backends/vulkan/subgroups.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace towers::vulkan {

struct Dispatch {
    std::span<const std::uint32_t> code;  ///< SPIR-V, of static lifetime
    std::vector<std::uint32_t> constants; ///< specialization constants 0, 1, ...
    ParameterBlock parameters;
    glm::uvec3 groups;
    unsigned subgroup_size = 0; ///< to ask for; 0: the driver chooses
    bool bfloat16 = false;      ///< the code is meant as_bfloat16()
};

/// Overrides for drivers that run on a CPU, then what every GPU has.
std::span<const Variant> variants();

Dispatch dispatch_of(const StageLaunch& launch, const DeviceFacts& facts);

/// What a driver tells of its device beyond DeviceInfo
struct Details {
    bool shuffles = false;      ///< within subgroups
    unsigned shared_memory = 0; ///< bytes of a workgroup
    SubgroupSizes subgroups = {};
    Matrices matrices = {};
};
/// The types that a card's matrix units multiply by the sources by fragments, which this program may lack
std::vector<Precision> units_of(const Details& details);
DeviceFacts facts_of(const DeviceInfo& info, const Details& details, const OpenOptions& options);

/// Whether a shader uses subgroup operations.
bool uses_subgroups(std::span<const std::uint32_t> code);

/// The shader with SignedZeroInfNanPreserve added, so that the driver's compiler does not assume that float32
/// values are finite or not -0, as some do, and NaN stays unequal to itself.
std::vector<std::uint32_t> keeping_nan(std::span<const std::uint32_t> code);

/// One of each pipeline that a hardware device with these facts may be asked to run, by kernel and tile:
/// `conv2d_forward 64x16`, `conv2d_forward 64x64 quads`, `conv2d_forward 64x64 fragments bf16`.
std::map<std::string, Dispatch> all_hardware_dispatches(const DeviceFacts& facts);

} // namespace towers::vulkan
