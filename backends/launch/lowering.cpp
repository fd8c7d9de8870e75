#include "backends/launch/lowering.h"

#include "backends/launch/quads.h"
#include "backends/launch/shared_source.h"
#include "backends/launch/stages.h"
#include "backends/launch/winograd.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace towers {

std::span<const Variant> gpu_variants() {
    static constexpr Variant all[] = {
#define TOWERS_KERNEL(name, Params, size, items)                                                             \
    {Kernel::name, shared_source, shared_source_config, shared_source_configs},
#define TOWERS_TILED_KERNEL(name, Params, size)                                                              \
    {Kernel::name, quads_source, quads_config, quads_configs, KernelSource::quads},                          \
        {Kernel::name, padded_quads, padded_quads_config, padded_quads_configs, {}, padded_stages},          \
        {Kernel::name, winograd_method, winograd_config, winograd_configs, {}, winograd_stages},             \
        TOWERS_KERNEL(name, Params, size, )
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    };
    return all;
}

Lowered lower(std::span<const Command> commands, std::span<const Variant> variants, const DeviceFacts& facts,
              const AllocateScratch& allocate) {
    std::vector<std::pair<Choice<Variant>, std::size_t>> launches; // and where their scratch memory begins
    std::size_t used = 0, most = 0; // since the last barrier, and of all scratch memory
    for (const Command& command : commands) {
        if (const auto* launch = std::get_if<Launch>(&command)) {
            const Choice<Variant> choice = choose(variants, *launch, facts);
            launches.push_back({choice, used});
            used += stages_of(*choice.variant, *launch, choice.config, facts, 0).scratch_bytes;
            most = std::max(most, used);
        } else if (!std::holds_alternative<Copy>(command)) {
            used = 0;
        }
    }
    Lowered lowered;
    if (most > 0) lowered.scratch = allocate(most);
    const std::uint64_t scratch = lowered.scratch ? lowered.scratch->address : 0;
    auto next = launches.begin();
    const auto add = [&](const auto& command) {
        if constexpr (std::is_same_v<decltype(command), const Launch&>) {
            const auto& [choice, begin] = *next++;
            lowered.commands.push_back(LoweredLaunch{
                &command, stages_of(*choice.variant, command, choice.config, facts, scratch + begin)});
        } else {
            lowered.commands.push_back(command);
        }
    };
    for (const Command& command : commands) std::visit(add, command);
    return lowered;
}

Footprint footprint_of(const LoweredLaunch& launch) {
    Footprint footprint = footprint_of(*launch.launch);
    const auto& [stages, scratch, bytes] = launch.staged;
    if (bytes > 0) footprint.bytes.push_back({scratch, scratch + bytes, true});
    return footprint;
}

} // namespace towers
