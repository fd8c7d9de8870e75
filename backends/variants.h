// The one decision for a launch: which of a backend's ways to compute it runs on a device, with which tile,
// how many workgroups and how many parts of a sum. Each backend has a table of variants and asks it in the
// order of preference.
#pragma once

#include "backends/tiles.h"

#include <glm/vec3.hpp>
#include <optional>
#include <span>
#include <string_view>

namespace towers {

/// For tests: limits on how devices share out launches, which results must not depend on.
struct SharingLimits {
    unsigned most_groups = 0; ///< workgroups of a shared text; 0: no limit
    unsigned parts = 0;       ///< parts of every sum that can be split; 0: as many as suit
    /// Rows of the tiles of Winograd's convolutions, which then compute all that they can; 0: what is
    /// cheapest
    unsigned winograd_tile = 0;
};

/// What decides on a device how a launch runs.
struct DeviceFacts {
    unsigned busy_groups;   ///< workgroups that keep the device busy: of a card, two for each processor
    unsigned subgroup_size; ///< of most kernels
    /// A Vulkan driver that runs on the host's processors, shuffles within subgroups, and may use what is
    /// written for such drivers.
    bool software = false;
    bool exact_products = false; ///< see OpenOptions
    bool quads = false;          ///< a card, or what may use what is written for cards
    unsigned shared_memory = 0;  ///< bytes of a workgroup
    SharingLimits limits = {};
};

/// How a variant runs a launch on a device.
struct Offer {
    glm::uvec3 groups{1, 1, 1};    ///< workgroups; on a CPU x threads run the shared text
    std::optional<Tile> tile = {}; ///< of a tiled kernel
    unsigned parts = 1;            ///< of a sum that is split; they are added up afterwards
    unsigned winograd_tile = 0;    ///< rows of the tiles of a Winograd convolution
    double cycles = 0;             ///< that a card is estimated to take; 0: not estimated
};

/// A way to compute one kernel: its shared text, its text by quads, or an override.
struct Variant {
    Kernel kernel;
    std::string_view name; ///< for reports
    /// Nothing: it does not take this launch on this device.
    std::optional<Offer> (*offer)(const Launch& launch, const DeviceFacts& facts);
};

constexpr std::string_view shared_text = "shared text"; ///< the name of that variant of each kernel
constexpr std::string_view quads_text = "quads";        ///< and of each tiled kernel's other shared text

/// A backend's variant, which adds to Variant what the backend runs it with, and its offer for a launch.
template<class BackendVariant>
struct Choice {
    const BackendVariant* variant; ///< null: the backend has none for the launch
    Offer offer;
};

/// The first variant that takes the launch.
template<class BackendVariant>
Choice<BackendVariant> choose(std::span<const BackendVariant> variants, const Launch& launch,
                              const DeviceFacts& facts) {
    for (const BackendVariant& variant : variants)
        if (variant.kernel == launch.kernel)
            if (const std::optional<Offer> offer = variant.offer(launch, facts)) return {&variant, *offer};
    return {nullptr, {}};
}

} // namespace towers
