// Decides how a tower computes its share: at once, or in micro-batches if memory is short. Uses no device, so
// that tests need none.
#pragma once

#include "backends/device.h"
#include "engine/plan/plan.h"
#include "engine/shares/shares.h"

#include <climits>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace towers {

/// How a tower may divide a large share into micro-batches.
struct Splitting {
    unsigned group = 1;   ///< micro-batches are multiples of this
    unsigned most = 0;    ///< the most examples at once, at least a group; 0: as many as fit into memory
    std::string obstacle; ///< why a share cannot be divided, for the user; empty: it can
};

/// How a tower computes its share.
struct AtOnce {
    unsigned micro_batches = 1;
    unsigned most = 0;     ///< examples in one; 0: the share is empty
    std::string reason;    ///< why not all at once, for the user; empty if memory is not the reason
    unsigned recorded = 0; ///< Share::micro_batches
    /// Why launches run in ways that need little scratch memory, for the user; empty: they need not
    std::string saves = {};

    /// Whether memory did not suffice for what is recorded, so that the last bits are others.
    bool deviates() const { return recorded != 0 && recorded != micro_batches; }
};

/// `2 micro-batches of up to 64 examples, because ...`; empty for one, unless it saves scratch memory.
std::string to_string(const AtOnce& at_once);

/// Whether a device's memory is the host's, so that staging memory counts too.
constexpr bool uses_host_memory(DeviceKind kind) {
    return kind == DeviceKind::cpu || kind == DeviceKind::integrated_gpu || kind == DeviceKind::software;
}

/// The bytes of the arenas that use the memory that Device::free_memory() reports.
std::uint64_t counted_bytes(const ArenaBytes& bytes, DeviceKind kind);

/// A device's memory for a step, in bytes.
struct MemoryBudget {
    DeviceKind kind = DeviceKind::cpu;
    std::uint64_t free = Device::not_told;         ///< see Device::free_memory()
    std::uint64_t largest_allocation = UINT64_MAX; ///< see DeviceInfo
    ArenaBytes held{};                             ///< what the tower already holds
};

/// Chooses how a tower computes its shares, and remembers what its device has refused.
class MicroBatching {
public:
    explicit MicroBatching(Splitting splitting) : splitting_(std::move(splitting)) {}

    /// How to compute a share, which is not empty, decided before memory is allocated. `needed`: the memory
    /// of a step that computes at most this many examples at once; throws UsageError if kernels cannot count
    /// them.
    AtOnce choose(const Share& share, const MemoryBudget& memory,
                  const std::function<ArenaBytes(unsigned most)>& needed) const;

    /// Reports that an allocation for choose()'s result failed, so that it chooses fewer examples at once
    /// from now on. `why`: for the user. Returns false if it is one group already.
    bool halve(const AtOnce& refused, const std::string& why);
    /// Reports that launches need less scratch memory from now on, since not even the smallest steps had
    /// enough.
    void save_scratch(const std::string& why) { saves_ = why; }

    const std::string& obstacle() const { return splitting_.obstacle; } ///< see Splitting

private:
    Splitting splitting_;
    unsigned most_ = UINT_MAX; ///< examples at once; lowered when an allocation fails
    std::string refusal_;      ///< the driver's message about that
    std::string saves_;        ///< see AtOnce
};

} // namespace towers
