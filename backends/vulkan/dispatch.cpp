#include "backends/vulkan/dispatch.h"

#include "backends/launch/quads.h"
#include "backends/launch/sharing.h"
#include "backends/launch/stages.h"
#include "backends/launch/winograd.h"
#include "backends/vulkan/software_conv2d.h"
#include "backends/vulkan/spirv.h"

#include <fmt/format.h>

namespace towers::vulkan {
namespace {

template<const auto& code>
Dispatch dispatch_text(const Launch& launch, const Offer& offer, const DeviceFacts&) {
    std::vector<std::uint32_t> constants;
    if (offer.tile) constants = {offer.tile->height, offer.tile->width, offer.tile->threads};
    return {code, std::move(constants), launch.parameters, offer.groups};
}

template<const auto& code>
Dispatch dispatch_quads(const Launch& launch, const Offer& offer, const DeviceFacts& facts) {
    Dispatch dispatch = dispatch_text<code>(launch, offer, facts);
    dispatch.subgroup_size = facts.quads_subgroup_size;
    return dispatch;
}

constexpr VulkanVariant all_variants[] = {
#define SOFTWARE(name) {{Kernel::name, "software convolution", offer_software_conv2d}, software_conv2d},
    SOFTWARE(conv2d_forward) SOFTWARE(conv2d_backward_data) SOFTWARE(conv2d_backward_weights)
#undef SOFTWARE
#define TOWERS_KERNEL(name, Params, size, items)                                                             \
    {{Kernel::name, shared_text, offer_shared_text, offers_shared_text}, dispatch_text<spirv_##name>},
#define TOWERS_TILED_KERNEL(name, Params, size)                                                              \
    {{Kernel::name, quads_text, offer_quads, offers_quads}, dispatch_quads<spirv_##name##_quads>},           \
        {{Kernel::name, padded_quads, offer_padded_quads, offers_padded_quads, padded_stages}, nullptr},     \
        {{Kernel::name, winograd_method, offer_winograd, offers_winograd, winograd_stages}, nullptr},        \
        TOWERS_KERNEL(name, Params, size, )
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
};

// A SPIR-V module begins with five words of header and the capabilities that it uses.
constexpr std::uint32_t spirv_header = 5, op_capability = 17;
constexpr std::uint32_t opcode(std::uint32_t first_word) { return first_word & 0xffff; }
constexpr std::uint32_t words(std::uint32_t first_word) { return first_word >> 16; }

} // namespace

std::span<const VulkanVariant> variants() { return all_variants; }

DeviceFacts facts_of(const DeviceInfo& info, const Details& details, Texts texts) {
    const bool software = info.kind == DeviceKind::software;
    // As for CUDA; where no driver tells how many processors a card has, a few hundred fill today's cards.
    const unsigned groups = info.compute_units != 0 ? 2 * info.compute_units : 256;
    return {.busy_groups = software ? 8u : groups,
            .subgroup_size = info.subgroup_size,
            .software = software && texts == Texts::best && details.shuffles,
            .quads = texts == Texts::cards || (texts == Texts::best && !software),
            .quads_elements = software ? 32 : elements_for_quads(details.subgroups),
            .quads_subgroup_size = size_for_quads(details.subgroups),
            .shared_memory = details.shared_memory};
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
    for (const VulkanVariant& variant : all_variants) {
        const bool by_quads = variant.name == quads_text;
        if (variant.name != shared_text && !by_quads) continue;
        const KernelInfo& kernel = kernel_info(variant.kernel);
        const Launch launch{variant.kernel, {}};
        if (kernel.item != Item::tile) {
            all[kernel.name] = variant.dispatch(launch, {}, facts);
            continue;
        }
        for (const Tile& tile : by_quads ? std::span<const Tile>(quad_tiles) : tiles)
            if (!by_quads || has_room(tile, facts))
                all[fmt::format("{} {}x{}{}", kernel.name, tile.height, tile.width,
                                by_quads ? " quads" : "")] = variant.dispatch(launch, {.tile = tile}, facts);
    }
    return all;
}

} // namespace towers::vulkan
