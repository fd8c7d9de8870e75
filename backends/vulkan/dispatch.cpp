#include "backends/vulkan/dispatch.h"

#include "backends/launch/costs.h"
#include "backends/launch/lowering.h"
#include "backends/launch/quads.h"
#include "backends/launch/shared_source.h"
#include "backends/vulkan/software_conv2d.h"
#include "backends/vulkan/spirv.h"
#include "backends/vulkan/spirv_words.h"

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>

namespace towers::vulkan {
namespace {

/// By kernel, none for tiled ones
constexpr struct {
    std::span<const std::uint32_t> shared, software = {};
} codes[] = {
#define TOWERS_KERNEL(name, Params, size, items) {.shared = spirv_##name},
#define TOWERS_WORKGROUP_KERNEL(name, Params, size, items)                                                   \
    {.shared = spirv_##name, .software = spirv_##name##_software},
#define TOWERS_TILED_KERNEL(name, Params, size) {},
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
};

std::span<const std::uint32_t> code_of(Kernel kernel, KernelSource source, const Tile& tile) {
    const std::string tiled =
        std::string(kernel_info(kernel).name) + (source == KernelSource::quads ? "_quads" : "");
#define TOWERS_TILED_SOURCE(name, tall, wide, many)                                                          \
    if (tiled == #name && tile.height == tall && tile.width == wide) return spirv_##name##_##tall##_##wide;
#include "tiled_kernel_sources.inc"
#undef TOWERS_TILED_SOURCE
    throw std::logic_error(fmt::format("{} has no tile of {}x{}", tiled, tile.height, tile.width));
}

std::span<const std::uint32_t> fragment_code_of(Kernel kernel, const Tile& tile, Precision operands,
                                                bool any_size) {
    const std::string wanted =
        fmt::format("{}_fragments{}_{}_{}_{}", kernel_info(kernel).name, any_size ? "_of_any_size" : "",
                    name_of(operands), tile.height, tile.width);
#define TOWERS_FRAGMENT_CODE(name)                                                                           \
    if (wanted == #name) return spirv_##name;
#include "fragment_codes.inc"
#undef TOWERS_FRAGMENT_CODE
    throw std::logic_error(fmt::format("there is no {}", wanted));
}

/// Of the sources by fragments: FRAGMENT_ROWS and so on (shaders/dialect/fragment_glsl.h)
std::vector<std::uint32_t> constants_of(const Fragments& fragment, const Tile& tile, Precision operands) {
    if (fragment.of_workgroup)
        return {tile.height, tile.width, fragments_costs(operands).depth, tile.threads, fragment.patch_rows};
    return {fragment.rows, fragment.columns, fragment.depth, fragment.invocations, fragment.patch_rows};
}

Dispatch by_fragments(const Launch& launch, const LaunchConfig& config, const Fragments& fragment) {
    return {.code = fragment_code_of(launch.kernel, *config.tile, config.operands, fragment.any_size),
            .constants = constants_of(fragment, *config.tile, config.operands),
            .parameters = launch.parameters,
            .groups = config.groups,
            .subgroup_size = fragment.subgroup_size,
            .bfloat16 = config.operands != Precision::fp16};
}

} // namespace

const bool has_fragment_sources =
#define TOWERS_FRAGMENT_CODE(name) true ||
#include "fragment_codes.inc"
#undef TOWERS_FRAGMENT_CODE
    false;

std::span<const Variant> variants() {
    static const std::vector<Variant> all = [] {
        std::vector<Variant> joined;
        for (const Kernel kernel :
             {Kernel::conv2d_forward, Kernel::conv2d_backward_data, Kernel::conv2d_backward_weights})
            joined.push_back(
                {kernel, "software convolution", software_conv2d_config, nullptr, KernelSource::software});
        joined.insert(joined.end(), gpu_variants().begin(), gpu_variants().end());
        return joined;
    }();
    return all;
}

/// Whether a subgroup would take a whole image of so many pixels that a driver may end its loops (see
/// DeviceFacts::ends_loops).
bool has_large_images(const Launch& launch) {
    if (launch.kernel != Kernel::distort_images) return false;
    const auto& p = launch.parameters.as<DistortImagesParams>();
    return p.crop_height * p.crop_width > 128 * 128;
}

Dispatch dispatch_of(const StageLaunch& each, const DeviceFacts& facts) {
    const auto& [launch, source, config] = each;
    if (source == KernelSource::software) return software_conv2d(launch, config, facts);
    if (source == KernelSource::fragments) return by_fragments(launch, config, facts.fragments);
    const auto& [shared, software] = codes[std::size_t(launch.kernel)];
    const bool by_software = facts.software && !software.empty() && !has_large_images(launch);
    return {.code = config.tile   ? code_of(launch.kernel, source, *config.tile)
                    : by_software ? software
                                  : shared,
            .constants = {},
            .parameters = launch.parameters,
            .groups = config.groups,
            .subgroup_size = source == KernelSource::quads ? facts.quads_subgroup_size : 0};
}

std::vector<Precision> units_of(const Details& details) {
    DeviceFacts facts{.busy_groups = 1, .subgroup_size = 1, .shared_memory = details.shared_memory};
    facts.fragments = fragments_of(details.matrices, details.subgroups, false);
    facts.fragments.most_elements = elements_of_fragments(details.subgroups);
    std::vector<Precision> units;
    for (const Precision each : {Precision::bf16, Precision::fp16})
        if (takes_fragments(each, facts.fragments) &&
            std::ranges::any_of(fragment_tiles, [&](const Tile& tile) {
                return has_room_for_fragments(Kernel::conv2d_forward, tile, each, facts);
            }))
            units.push_back(each);
    return units;
}

DeviceFacts facts_of(const DeviceInfo& info, const Details& details, const OpenOptions& options) {
    const bool software = info.kind == DeviceKind::software;
    // A software driver's matrices are there to be tested, whatever its registers.
    const bool any_size = options.sources == Sources::nvidia_cards;
    const bool as_card = any_size || options.sources == Sources::cards;
    Fragments fragments;
    if (has_fragment_sources && (as_card || (options.sources == Sources::best && !software)))
        fragments = fragments_of(details.matrices, details.subgroups, any_size);
    if (!software) fragments.most_elements = elements_of_fragments(details.subgroups);
    // As for CUDA; where no driver tells how many processors a card has, a few hundred fill today's cards.
    const unsigned groups = info.compute_units != 0 ? 2 * info.compute_units : 256;
    return {.busy_groups = software ? 8u : groups,
            .subgroup_size = info.subgroup_size,
            .software = software && options.sources == Sources::best && details.shuffles,
            .ends_loops = software,
            .exact_products = options.exact_products,
            .precision = options.precision,
            .quads = as_card || (options.sources == Sources::best && !software),
            .quads_elements = software ? 32 : elements_for_quads(details.subgroups),
            .quads_subgroup_size = size_for_quads(details.subgroups),
            .fragments = fragments,
            .shared_memory = details.shared_memory,
            .limits = options.limits,
            .choices = options.choices};
}

bool uses_subgroups(std::span<const std::uint32_t> code) {
    constexpr std::uint32_t group_non_uniform = 61;
    for (std::size_t i = spirv_header; opcode(code[i]) == op_capability; i += words(code[i]))
        if (code[i + 1] == group_non_uniform) return true;
    return false;
}

std::vector<std::uint32_t> keeping_nan(std::span<const std::uint32_t> code) {
    constexpr std::uint32_t op_entry_point = 15, op_execution_mode = 16;
    constexpr std::uint32_t capability = 4466, mode = 4461, bits = 32; // SignedZeroInfNanPreserve
    std::vector<std::uint32_t> changed(code.begin(), code.begin() + spirv_header);
    changed.insert(changed.end(), {2u << 16 | op_capability, capability});
    for (std::size_t i = spirv_header; i < code.size(); i += words(code[i])) {
        changed.insert(changed.end(), &code[i], &code[i] + words(code[i]));
        if (opcode(code[i]) == op_entry_point) // there is one; execution modes follow it
            changed.insert(changed.end(), {4u << 16 | op_execution_mode, code[i + 2], mode, bits});
    }
    return changed;
}

std::map<std::string, Dispatch> all_hardware_dispatches(const DeviceFacts& facts) {
    std::map<std::string, Dispatch> all;
    for (const Variant& variant : gpu_variants()) {
        if (variant.stages != nullptr) continue; // it runs other variants' sources
        if (variant.source == KernelSource::fragments) {
            for (const Precision operands : {Precision::fp32, Precision::bf16, Precision::fp16})
                for (const Tile& tile : fragment_tiles)
                    if (takes_fragments(operands, facts.fragments) &&
                        has_room_for_fragments(variant.kernel, tile, operands, facts))
                        all[fmt::format("{} {}x{} fragments {}", kernel_info(variant.kernel).name,
                                        tile.height, tile.width, name_of(operands))] =
                            dispatch_of(
                                {{variant.kernel, {}}, variant.source, {.tile = tile, .operands = operands}},
                                facts);
            continue;
        }
        const bool by_quads = variant.source == KernelSource::quads;
        const KernelInfo& kernel = kernel_info(variant.kernel);
        const auto dispatch = [&](const LaunchConfig& config) {
            return dispatch_of({{variant.kernel, {}}, variant.source, config}, facts);
        };
        if (kernel.item != Item::tile) {
            all[kernel.name] = dispatch({});
            continue;
        }
        for (const Tile& tile : by_quads ? std::span<const Tile>(quad_tiles) : tiles)
            if (!by_quads || has_room(tile, facts))
                all[fmt::format("{} {}x{}{}", kernel.name, tile.height, tile.width,
                                by_quads ? " quads" : "")] = dispatch({.tile = tile});
    }
    return all;
}

} // namespace towers::vulkan
