// The ways in which a device can run a launch, and choices among them that replace its estimates.
#pragma once

#include "backends/launch/tiles.h"
#include "backends/precision.h"

#include <glm/vec3.hpp>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace towers {

/// How a variant (backends/launch/variants.h) runs a launch on a device.
struct LaunchConfig {
    glm::uvec3 groups{1, 1, 1};           ///< workgroups; on a CPU x threads run the shared source
    std::optional<Tile> tile = {};        ///< of a tiled kernel
    unsigned splits = 1;                  ///< parts of a sum (split-K), which are added up afterwards
    unsigned winograd_tile = 0;           ///< rows of the tiles of a Winograd convolution
    Precision operands = Precision::fp32; ///< that a product's factors are rounded to
    /// An estimate of the time, good only to compare the configurations that a device has for one launch: of
    /// a card cycles, of the CPU multiplications. Infinite: there is none.
    double cost = std::numeric_limits<double>::infinity();
};

/// Whether two configurations of a variant compute the same bits: they may differ in workgroups.
bool alike(const LaunchConfig& a, const LaunchConfig& b);

/// For tests: limits on launch configurations, which results must not depend on.
struct ConfigLimits {
    unsigned most_groups = 0; ///< workgroups of a shared source; 0: no limit
    unsigned splits = 0;      ///< parts of every sum that can be split; 0: as many as suit
    /// Rows of the tiles of Winograd's convolutions, which then compute all that they can; 0: what is
    /// cheapest, 1: no such convolution
    unsigned winograd_tile = 0;
};
constexpr ConfigLimits no_limits;

/// One of the ways in which a device can run a launch.
struct Candidate {
    std::string_view variant; ///< its name
    LaunchConfig config;
    bool used; ///< the device runs the launch so
};

/// A candidate for people to read: `quads 64x64, 3 parts`, `Winograd 4x4 by 64x64`.
std::string to_string(std::string_view variant, const LaunchConfig& config);

/// How to run launches, by key_of() the launch.
struct Chosen {
    std::string variant;
    LaunchConfig config; ///< without cost
};
using Choices = std::map<std::string, Chosen>;

/// The kernel and all parameters but the pointers, as `relu_forward 73728`: launches with the same key are
/// the same work. A number with an `f` is a float.
std::string key_of(const Launch& launch);

/// Null: nothing is chosen for the launch. `choices` may be null.
const Chosen* find(const Choices* choices, const Launch& launch);

/// What was chosen for a launch, or for its like with another batch, such as a smaller share's.
struct NearChoice {
    const Chosen* chosen = nullptr; ///< null: nothing
    bool same_batch = true;
};
/// If nothing is chosen for the launch itself, that of the nearest batch, at most twice as large and at least
/// half as large.
NearChoice find_near(const Choices* choices, const Launch& launch);

/// The one of a variant's configurations for a launch that was chosen. Where the batch is another, only its
/// tiles count, and the estimate decides the parts. Null: there is none.
const LaunchConfig* as_chosen(std::span<const LaunchConfig> configs, const NearChoice& near);

/// A source that is another if the kernels or what chooses among them are others.
std::string_view kernels_version();

} // namespace towers
