// The one decision for a launch: which of a backend's ways to compute it runs on a device, with which tile,
// how many workgroups and how many parts of a sum. Each backend has a table of variants and asks it in the
// order of preference.
#pragma once

#include "backends/launch/choices.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace towers {

/// For tests: limits on how devices share out launches, which results must not depend on.
struct SharingLimits {
    unsigned most_groups = 0; ///< workgroups of a shared text; 0: no limit
    unsigned parts = 0;       ///< parts of every sum that can be split; 0: as many as suit
    /// Rows of the tiles of Winograd's convolutions, which then compute all that they can; 0: what is
    /// cheapest, 1: no such convolution
    unsigned winograd_tile = 0;
};

/// What decides on a device how a launch runs.
struct DeviceFacts {
    unsigned busy_groups;   ///< workgroups that keep the device busy: of a card, two for each processor
    unsigned subgroup_size; ///< of most kernels
    /// A Vulkan driver that runs on the host's processors, shuffles within subgroups, and may use what is
    /// written for such drivers.
    bool software = false;
    bool exact_products = false;      ///< see OpenOptions
    bool quads = false;               ///< a card, or what may use what is written for cards
    unsigned quads_elements = 32;     ///< of a tile by quads, the most that an invocation can hold
    unsigned quads_subgroup_size = 0; ///< that a text by quads asks for; 0: the driver chooses
    unsigned shared_memory = 0;       ///< bytes of a workgroup
    SharingLimits limits = {};
    const Choices* choices = nullptr; ///< that come before all estimates; null: none
};

/// One of the launches as which a variant runs a launch.
struct StageLaunch {
    Launch launch;
    std::string_view variant; ///< of the launch's kernel, which has a text of its own
    Offer offer;
};
/// Launches that do not depend on each other.
using Stage = std::vector<StageLaunch>;

/// A launch as a GPU runs it.
struct StagedLaunch {
    std::vector<Stage> stages; ///< each reads what those before it have written
    std::size_t scratch_bytes; ///< of memory for what they hand on; 0: none
};

/// A way to compute one kernel: its shared text, its text by quads, an override, or several launches of such
/// texts.
struct Variant {
    Kernel kernel;
    std::string_view name; ///< for reports
    /// Nothing: it does not take this launch on this device.
    std::optional<Offer> (*offer)(const Launch& launch, const DeviceFacts& facts);
    /// All ways in which it could run the launch, also where `offer` leaves the launch to later variants.
    /// Null: only that of `offer`.
    std::vector<Offer> (*all_offers)(const Launch& launch, const DeviceFacts& facts) = nullptr;
    /// The launches as which it runs a launch; see stages_of() in backends/launch/stages.h. Null: it has a
    /// text.
    StagedLaunch (*stages)(const Launch& launch, const Offer& offer, const DeviceFacts& facts,
                           std::uint64_t scratch) = nullptr;

    std::vector<Offer> offers(const Launch& launch, const DeviceFacts& facts) const {
        if (all_offers != nullptr) return all_offers(launch, facts);
        const std::optional<Offer> only = offer(launch, facts);
        return only ? std::vector<Offer>{*only} : std::vector<Offer>();
    }
};

constexpr std::string_view shared_text = "shared text";   ///< the name of that variant of each kernel
constexpr std::string_view quads_text = "quads";          ///< and of each tiled kernel's other shared text
constexpr std::string_view padded_quads = "padded quads"; ///< and of that text with channels padded to fours
constexpr std::string_view winograd_method = "Winograd";  ///< on every backend

/// The kernel's variant with this name, which the table must have.
template<class BackendVariant>
const BackendVariant& variant_named(std::span<const BackendVariant> variants, Kernel kernel,
                                    std::string_view name) {
    return *std::ranges::find_if(
        variants, [&](const BackendVariant& each) { return each.kernel == kernel && each.name == name; });
}

/// A backend's variant, which adds to Variant what the backend runs it with, and its offer for a launch.
template<class BackendVariant>
struct Choice {
    const BackendVariant* variant; ///< null: the backend has none for the launch
    Offer offer;
};

/// What was chosen for the launch, else the first variant that takes it. Throws DeviceError if the device
/// does not have what was chosen.
template<class BackendVariant>
Choice<BackendVariant> choose(std::span<const BackendVariant> variants, const Launch& launch,
                              const DeviceFacts& facts) {
    const Chosen* const chosen = find(facts.choices, launch);
    for (const BackendVariant& variant : variants) {
        if (variant.kernel != launch.kernel) continue;
        if (chosen == nullptr) {
            if (const std::optional<Offer> offer = variant.offer(launch, facts)) return {&variant, *offer};
        } else if (variant.name == chosen->variant) {
            Choice<BackendVariant> choice{nullptr, {}};
            for (const Offer& offer : variant.offers(launch, facts)) // workgroups change no bits
                if (alike(offer, chosen->offer) &&
                    (choice.variant == nullptr || offer.groups == chosen->offer.groups))
                    choice = {&variant, offer};
            if (choice.variant != nullptr) return choice;
        }
    }
    if (chosen != nullptr) refuse(launch, *chosen);
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
        for (const Offer& offer : variant.offers(launch, facts))
            all.push_back(
                {variant.name, offer,
                 &variant == used.variant && alike(offer, used.offer) && offer.groups == used.offer.groups});
    }
    return all;
}

} // namespace towers
