// The one decision for a launch: which of a backend's ways to compute it runs on a device, with which tile,
// how many workgroups and how many parts of a sum. Each backend has a table of variants and asks it in the
// order of preference.
#pragma once

#include "backends/launch/choices.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace towers {

/// The bit of Fragments::operands
constexpr unsigned units_for(Precision operands) { return 1u << unsigned(operands); }

/// Matrix units, as the sources by fragments (shaders/gemm_fragments.h) run on them
struct Fragments {
    unsigned operands = 0; ///< the types that they multiply: units_for()
    bool in_parts = true;  ///< also float32 in two parts of bf16, if they multiply that
    unsigned rows = 16, columns = 16, depth = 16;
    unsigned invocations = 32;    ///< of a subgroup, which shares a fragment
    bool of_workgroup = false;    ///< a workgroup does, and a fragment is a tile
    unsigned subgroup_size = 0;   ///< to ask for; 0: the driver chooses
    unsigned patch_rows = 16;     ///< so many rows of a fragment become quads at once
    bool any_size = false;        ///< of Vulkan: by VK_NV_cooperative_matrix2
    unsigned most_elements = 64;  ///< of a tile, that an invocation can hold
    unsigned reserved_memory = 0; ///< bytes of a workgroup's shared memory that the device needs itself
};

/// What decides on a device how a launch runs.
struct DeviceFacts {
    unsigned busy_groups;   ///< workgroups that keep the device busy: of a card, two for each processor
    unsigned subgroup_size; ///< of most kernels
    /// A Vulkan driver that runs on the host's processors, shuffles within subgroups, and may use what is
    /// written for such drivers.
    bool software = false;
    /// Any Vulkan driver on the host's processors: llvmpipe ends all loops of an invocation, without a word,
    /// after 65535 rounds in sum.
    bool ends_loops = false;
    bool exact_products = false;           ///< see OpenOptions
    Precision precision = Precision::fp32; ///< see OpenOptions
    bool round_operands = false;           ///< see OpenOptions
    bool little_scratch = false;           ///< see Device::save_scratch(); then nothing is chosen before
    bool quads = false;                    ///< a card, or what may use what is written for cards
    unsigned quads_elements = 32;          ///< of a tile by quads, the most that an invocation can hold
    unsigned quads_subgroup_size = 0;      ///< that a source by quads asks for; 0: the driver chooses
    Fragments fragments = {};              ///< without operands: it has no matrix units
    unsigned shared_memory = 0;            ///< bytes of a workgroup
    const ConfigLimits* limits = &no_limits;
    const Choices* choices = nullptr; ///< that come before all estimates; null: none
};

/// Which of the sources of its kernel runs a launch on a GPU
enum class KernelSource : std::uint8_t {
    shared,
    quads,
    fragments, ///< in the operands of its configuration; float32 ones in two parts
    software,  ///< for Vulkan drivers that run on the host's processors
};

/// One of the launches as which a variant runs a launch.
struct StageLaunch {
    Launch launch;
    KernelSource source;
    LaunchConfig config;
};
/// Launches that do not depend on each other.
using Stage = std::vector<StageLaunch>;

/// A launch as a GPU runs it.
struct StagedLaunch {
    std::vector<Stage> stages; ///< each reads what those before it have written
    std::uint64_t scratch;     ///< the address of memory for what they hand on
    std::size_t scratch_bytes; ///< its size; 0: there is none
};

/// A way to compute one kernel: its shared source, its source by quads, an override, or several launches of
/// such sources.
struct Variant {
    Kernel kernel;
    std::string_view name; ///< for reports
    /// Nothing: it does not take this launch on this device.
    std::optional<LaunchConfig> (*config)(const Launch& launch, const DeviceFacts& facts);
    /// All ways in which it could run the launch, also where `config` leaves the launch to later variants.
    /// Null: only that of `config`.
    std::vector<LaunchConfig> (*all_configs)(const Launch& launch, const DeviceFacts& facts) = nullptr;
    KernelSource source = KernelSource::shared; ///< of a GPU's variant
    /// The launches as which it runs a launch; see stages_of() in backends/launch/stages.h. Null: `source`
    /// runs it.
    StagedLaunch (*stages)(const Launch& launch, const LaunchConfig& config, const DeviceFacts& facts,
                           std::uint64_t scratch) = nullptr;

    std::vector<LaunchConfig> configs(const Launch& launch, const DeviceFacts& facts) const {
        if (all_configs != nullptr) return all_configs(launch, facts);
        const std::optional<LaunchConfig> only = config(launch, facts);
        return only ? std::vector<LaunchConfig>{*only} : std::vector<LaunchConfig>();
    }
};

constexpr std::string_view shared_source = "shared text"; ///< the name of that variant of each kernel
constexpr std::string_view quads_source = "quads";        ///< and of each tiled kernel's other shared source
constexpr std::string_view padded_quads =
    "padded quads"; ///< and of that source with channels padded to fours
constexpr std::string_view window_rows =
    "window rows"; ///< likewise with the rows of windows as the channels of a convolution one wide
constexpr std::string_view fragments_source = "fragments"; ///< the source for matrix units
constexpr std::string_view padded_fragments =
    "padded fragments"; ///< and of that source, as of the one by quads
constexpr std::string_view window_rows_by_fragments = "window rows by fragments"; ///< likewise
constexpr std::string_view winograd_method = "Winograd";                          ///< on every backend

/// A backend's variant, which adds to Variant what the backend runs it with, and its configuration for a
/// launch.
template<class BackendVariant>
struct Choice {
    const BackendVariant* variant; ///< null: the backend has none for the launch
    LaunchConfig config;
};

/// What was chosen for the launch, or for its like with a near batch, if the device has that; else the first
/// variant that takes it.
template<class BackendVariant>
Choice<BackendVariant> choose(std::span<const BackendVariant> variants, const Launch& launch,
                              const DeviceFacts& facts) {
    const NearChoice near = facts.little_scratch ? NearChoice{} : find_near(facts.choices, launch);
    if (near.chosen != nullptr)
        for (const BackendVariant& variant : variants) {
            if (variant.kernel != launch.kernel || variant.name != near.chosen->variant) continue;
            const std::vector<LaunchConfig> configs = variant.configs(launch, facts);
            if (const LaunchConfig* const config = as_chosen(configs, near)) return {&variant, *config};
        }
    for (const BackendVariant& variant : variants)
        if (variant.kernel == launch.kernel)
            if (const std::optional<LaunchConfig> config = variant.config(launch, facts))
                return {&variant, *config};
    return {nullptr, {}};
}

/// All ways in which the variants could run the launch, in the order of the table.
template<class BackendVariant>
std::vector<Candidate> candidates(std::span<const BackendVariant> variants, const Launch& launch,
                                  const DeviceFacts& facts) {
    const Choice<BackendVariant> used = choose(variants, launch, facts);
    std::vector<Candidate> all;
    for (const BackendVariant& variant : variants) {
        if (variant.kernel != launch.kernel) continue;
        for (const LaunchConfig& config : variant.configs(launch, facts))
            all.push_back({variant.name, config,
                           &variant == used.variant && alike(config, used.config) &&
                               config.groups == used.config.groups});
    }
    return all;
}

} // namespace towers
