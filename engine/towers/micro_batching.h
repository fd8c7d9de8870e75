// How a tower computes its share: at once, or in micro-batches where memory is short. Uses no device, so that
// tests need none.
#pragma once

#include "backends/device.h"
#include "engine/plan/plan.h"

#include <climits>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace towers {

/// How a tower may split a share that is too large to be computed at once.
struct Splitting {
    unsigned group = 1;   ///< examples that stay together
    unsigned most = 0;    ///< examples at once, a group at least; 0: as many as fit into memory
    std::string obstacle; ///< why a share cannot be split, for the user; empty: it can
};

/// How a tower computes its share.
struct AtOnce {
    unsigned micro_batches = 1;
    unsigned most = 0;  ///< examples in one
    std::string reason; ///< why not all, for the user; empty when memory is not the reason
};

/// `2 micro-batches of up to 64 examples, because ...`; empty for one.
std::string to_string(const AtOnce& at_once);

/// The bytes of those arenas that take of the memory that Device::free_memory() tells of.
std::uint64_t counted_bytes(const ArenaBytes& bytes, DeviceKind kind);

/// What a device has for a step, in bytes.
struct MemoryBudget {
    DeviceKind kind = DeviceKind::cpu;
    std::uint64_t free = Device::not_told;         ///< see Device::free_memory()
    std::uint64_t largest_allocation = UINT64_MAX; ///< see DeviceInfo
    ArenaBytes held{};                             ///< what the tower has in any case
};

/// Chooses how a tower computes its shares, and remembers what its device has refused.
class MicroBatching {
public:
    explicit MicroBatching(Splitting splitting) : splitting_(std::move(splitting)) {}

    /// How to compute a share, as far as can be told before memory is allocated. `needed`: what a step needs
    /// that computes at most so many examples at once; UsageError when kernels cannot count them.
    AtOnce choose(unsigned share, const MemoryBudget& memory,
                  const std::function<ArenaBytes(unsigned most)>& needed) const;

    /// Memory was refused to what choose() returned: from now on it chooses fewer examples at once. `why`:
    /// for the user. False: there are no fewer.
    bool make_do(const AtOnce& refused, const std::string& why);

    const std::string& obstacle() const { return splitting_.obstacle; } ///< see Splitting

private:
    Splitting splitting_;
    unsigned most_ = UINT_MAX; ///< examples at once, since more were refused memory
    std::string refusal_;      ///< with the driver's words
};

} // namespace towers
