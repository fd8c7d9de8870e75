// What all GPU backends do with a recording's commands before each makes its own of them: they choose how
// each launch runs, in which stages, and where in the scratch memory one stage hands on to the next.
#pragma once

#include "backends/device.h"
#include "backends/launch/order.h"
#include "backends/launch/variants.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <variant>
#include <vector>

namespace towers {

/// The variants that every GPU has: Winograd's convolutions, by fragments and by quads, with channels as they
/// are and padded, and the shared source of each kernel.
std::span<const Variant> gpu_variants();

struct LoweredLaunch {
    const Launch* launch; ///< among the commands
    StagedLaunch staged;
};
using LoweredCommand = std::variant<LoweredLaunch, Copy, Barrier, Timestamp>;

/// A recording's commands
struct Lowered {
    std::vector<LoweredCommand> commands;
    std::unique_ptr<Allocation> scratch; ///< that they use as long as the recording lives; null: no own one
};

/// Where a recording's scratch memory comes from
struct ScratchMemory {
    using Allocate = std::function<std::unique_ptr<Allocation>(std::size_t bytes)>;
    const Buffer* given; ///< may be null
    Allocate allocate;   ///< if that does not suffice
};

/// The launches between two barriers (or timestamps) each have their own scratch memory, one after the other;
/// after the barrier it is used again. `variants`: those of the backend, which take every launch.
Lowered lower(std::span<const Command> commands, std::span<const Variant> variants, const DeviceFacts& facts,
              const ScratchMemory& scratch);

/// A GPU's Device::scratch_bytes() and Device::save_scratch()
std::size_t scratch_bytes(const Launch& launch, std::span<const Variant> variants, const DeviceFacts& facts);
bool save_scratch(DeviceFacts& facts);

/// What the launch touches, its scratch memory included
Footprint footprint_of(const LoweredLaunch& launch);

} // namespace towers
