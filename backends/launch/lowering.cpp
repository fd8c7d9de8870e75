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
    {Kernel::name, winograd_method, winograd_config, winograd_configs, {}, winograd_stages},                 \
        {Kernel::name, fragments_source, fragments_config, fragments_configs, KernelSource::fragments},      \
        {Kernel::name, quads_source, quads_config, quads_configs, KernelSource::quads},                      \
        {Kernel::name,                                                                                       \
         window_rows_by_fragments,                                                                           \
         window_rows_by_fragments_config,                                                                    \
         window_rows_by_fragments_configs,                                                                   \
         {},                                                                                                 \
         window_rows_by_fragments_stages},                                                                   \
        {Kernel::name, padded_fragments,       padded_fragments_config, padded_fragments_configs,            \
         {},           padded_fragments_stages},                                                             \
        {Kernel::name, window_rows, window_rows_config, window_rows_configs, {}, window_rows_stages},        \
        {Kernel::name, padded_quads, padded_quads_config, padded_quads_configs, {}, padded_stages},          \
        TOWERS_KERNEL(name, Params, size, )
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    };
    return all;
}

Lowered lower(std::span<const Command> commands, std::span<const Variant> variants, const DeviceFacts& facts,
              const ScratchMemory& scratch) {
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
    const std::size_t given = scratch.given != nullptr ? scratch.given->bytes() : 0;
    if (most > given) lowered.scratch = scratch.allocate(most);
    const std::uint64_t address = lowered.scratch ? lowered.scratch->address
                                  : given > 0     ? scratch.given->address()
                                                  : 0;
    auto next = launches.begin();
    const auto add = [&](const auto& command) {
        if constexpr (std::is_same_v<decltype(command), const Launch&>) {
            const auto& [choice, begin] = *next++;
            lowered.commands.push_back(LoweredLaunch{
                &command, stages_of(*choice.variant, command, choice.config, facts, address + begin)});
        } else {
            lowered.commands.push_back(command);
        }
    };
    for (const Command& command : commands) std::visit(add, command);
    return lowered;
}

std::size_t scratch_bytes(const Launch& launch, std::span<const Variant> variants, const DeviceFacts& facts) {
    const Choice<Variant> choice = choose(variants, launch, facts);
    return stages_of(*choice.variant, launch, choice.config, facts, 0).scratch_bytes;
}

bool save_scratch(DeviceFacts& facts) {
    const bool has_other_ways = facts.quads && !facts.exact_products; // than Winograd's method
    return has_other_ways && !std::exchange(facts.little_scratch, true);
}

Footprint footprint_of(const LoweredLaunch& launch) {
    Footprint footprint = footprint_of(*launch.launch);
    const auto& [stages, scratch, bytes] = launch.staged;
    if (bytes > 0) footprint.bytes.push_back({scratch, scratch + bytes, true});
    return footprint;
}

} // namespace towers
