#include "backends/vulkan/dispatch.h"

#include "backends/vulkan/spirv.h"

#include <fmt/format.h>

namespace towers::vulkan {
namespace {

std::span<const std::uint32_t> shared_text(Kernel kernel) {
    switch (kernel) {
#define TOWERS_KERNEL(name, Params, size, items)                                                             \
    case Kernel::name:                                                                                       \
        return spirv_##name;
#define TOWERS_TILED_KERNEL(name, Params, size) TOWERS_KERNEL(name, Params, size, )
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    }
    return {};
}

// A SPIR-V module begins with five words of header and the capabilities that it uses.
constexpr std::uint32_t spirv_header = 5, op_capability = 17;
constexpr std::uint32_t opcode(std::uint32_t first_word) { return first_word & 0xffff; }
constexpr std::uint32_t words(std::uint32_t first_word) { return first_word >> 16; }

} // namespace

Capacity capacity_of(const DeviceInfo& info, const SharingLimits& limits) {
    // Vulkan does not tell how many processors a card has; a few hundred workgroups fill today's cards.
    return {info.kind == DeviceKind::software ? 8u : 256u, info.subgroup_size, limits};
}

Dispatch dispatch_of(const Launch& launch, const DeviceInfo& info, const Capacity& capacity, bool overrides) {
    if (overrides && info.kind == DeviceKind::software)
        if (auto dispatch = software_conv2d(launch, info)) return *std::move(dispatch);
    std::vector<std::uint32_t> constants;
    const Workgroups workgroups = workgroups_for(launch, capacity);
    if (workgroups.tile) constants = {workgroups.tile->height, workgroups.tile->width};
    return {shared_text(launch.kernel), std::move(constants), launch.parameters, {workgroups.count, 1, 1}};
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
        if (opcode(code[i]) == op_entry_point) // there is one, and the execution modes follow it
            changed.insert(changed.end(), {4u << 16 | op_execution_mode, code[i + 2], mode, bits});
    }
    return changed;
}

std::map<std::string, Dispatch> all_hardware_dispatches() {
    std::map<std::string, Dispatch> all;
    for (std::size_t i = 0; i < all_kernels().size(); ++i) {
        const std::string name = all_kernels()[i].name;
        const std::span<const std::uint32_t> code = shared_text(Kernel(i));
        if (all_kernels()[i].item != Item::tile) {
            all[name] = {code, {}, {}, {1, 1, 1}};
            continue;
        }
        for (const auto& [height, width] : tiles)
            all[fmt::format("{} {}x{}", name, height, width)] = {code, {height, width}, {}, {1, 1, 1}};
    }
    return all;
}

} // namespace towers::vulkan
