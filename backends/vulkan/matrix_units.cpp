#include "backends/vulkan/matrix_units.h"

#include "backends/vulkan/spirv_words.h"

#include "backends/launch/tiles.h"

#include <algorithm>

namespace towers::vulkan {
namespace {

constexpr const char* cooperative_extension = "VK_KHR_cooperative_matrix";
constexpr const char* cooperative2_extension = "VK_NV_cooperative_matrix2";
constexpr const char* bfloat16_extension = "VK_KHR_shader_bfloat16";

// As in headers from 1.4.311 on
constexpr std::int32_t float16 = 0, float32 = 1, bfloat16 = 1000141000; // VkComponentTypeKHR
constexpr std::int32_t subgroup_scope = 3;                              // VkScopeKHR
struct CooperativeShape {
    VkStructureType type = VkStructureType(1000506001);
    void* next = nullptr;
    std::uint32_t rows = 0, columns = 0, depth = 0;
    std::int32_t a = 0, b = 0, c = 0, result = 0;
    VkBool32 saturating = false;
    std::int32_t scope = 0;
};
struct Cooperative2Properties {
    VkStructureType type = VkStructureType(1000593002);
    void* next = nullptr;
    std::uint32_t most_invocations = 0, most_rows = 0, reserved_memory = 0;
};

std::vector<CooperativeShape> all_shapes(vk::Instance instance, const vk::raii::PhysicalDevice& device) {
    using List = VkResult(VKAPI_PTR*)(VkPhysicalDevice, std::uint32_t*, CooperativeShape*);
    const auto list = reinterpret_cast<List>(device.getDispatcher()->vkGetInstanceProcAddr(
        instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
    std::uint32_t count = 0;
    if (list == nullptr || list(*device, &count, nullptr) != VK_SUCCESS) return {};
    std::vector<CooperativeShape> shapes(count);
    if (list(*device, &count, shapes.data()) != VK_SUCCESS) return {};
    shapes.resize(count);
    return shapes;
}

template<class Features>
void ask(const vk::raii::PhysicalDevice& device, Features& features) {
    VkPhysicalDeviceFeatures2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &features, {}};
    device.getDispatcher()->vkGetPhysicalDeviceFeatures2(*device, &all);
}

} // namespace

Matrices matrices_of(vk::Instance instance, const vk::raii::PhysicalDevice& device) {
    const std::vector<vk::ExtensionProperties> extensions = device.enumerateDeviceExtensionProperties();
    const auto has = [&](std::string_view name) {
        return std::ranges::any_of(extensions,
                                   [&](const auto& each) { return each.extensionName.data() == name; });
    };
    if (!has(cooperative_extension)) return {};
    MatrixFeatures::Cooperative cooperative;
    ask(device, cooperative);
    const auto features =
        device.getFeatures2<vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceVulkan12Features>()
            .get<vk::PhysicalDeviceVulkan12Features>();
    if (!cooperative.matrices || !features.vulkanMemoryModel) return {};
    MatrixFeatures::Bfloat16 with_bfloat16;
    if (has(bfloat16_extension)) ask(device, with_bfloat16);

    Matrices matrices;
    for (const CooperativeShape& each : all_shapes(instance, device)) {
        if (each.scope != subgroup_scope || each.c != float32 || each.result != float32 || each.a != each.b)
            continue;
        if (each.a == float16 && features.shaderFloat16)
            matrices.shapes.push_back({Precision::fp16, each.rows, each.columns, each.depth});
        if (each.a == bfloat16 && with_bfloat16.matrices)
            matrices.shapes.push_back({Precision::bf16, each.rows, each.columns, each.depth});
    }
    if (!has(cooperative2_extension)) return matrices;
    MatrixFeatures::Cooperative2 second;
    ask(device, second);
    matrices.of_any_size = second.of_any_size && second.functions_of_elements;
    Cooperative2Properties properties;
    VkPhysicalDeviceProperties2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &properties, {}};
    device.getDispatcher()->vkGetPhysicalDeviceProperties2(*device, &all);
    const unsigned largest = std::ranges::max(fragment_tiles, {}, &Tile::threads).threads;
    matrices.of_workgroups =
        matrices.of_any_size && second.of_workgroups && properties.most_invocations >= largest;
    matrices.reserved_memory = properties.reserved_memory;
    return matrices;
}

bool has_operands(const Matrices& matrices, Precision operands) {
    return std::ranges::find(matrices.shapes, operands, &MatrixShape::operands) != matrices.shapes.end();
}

Fragments fragments_of(const Matrices& matrices, const SubgroupSizes& sizes, bool any_size) {
    if (matrices.shapes.empty()) return {};
    // The least is what Intel's units work with, and as good as another on other cards.
    const bool asks = sizes.least != sizes.most;
    const unsigned largest = std::ranges::max(fragment_tiles, {}, &Tile::threads).threads;
    if (asks && (!sizes.on_request || largest > sizes.least * sizes.most_subgroups)) return {};
    const auto usual = [](const MatrixShape& s) { return s.rows == 16 && s.columns == 16 && s.depth == 16; };
    const auto size = [](const MatrixShape& s) { return s.rows * s.columns * s.depth; };
    MatrixShape shape = std::ranges::max(matrices.shapes, {}, size);
    if (const auto found = std::ranges::find_if(matrices.shapes, usual); found != matrices.shapes.end())
        shape = *found;
    Fragments fragments{.rows = shape.rows,
                        .columns = shape.columns,
                        .depth = shape.depth,
                        .invocations = sizes.least,
                        .subgroup_size = asks ? sizes.least : 0,
                        .patch_rows = shape.rows};
    for (const MatrixShape& each : matrices.shapes)
        if (each.rows == shape.rows && each.columns == shape.columns && each.depth == shape.depth)
            fragments.operands |= units_for(each.operands);
    if (matrices.of_workgroups) {
        fragments.any_size = fragments.of_workgroup = true;
        fragments.patch_rows = 32;
        fragments.reserved_memory = matrices.reserved_memory;
    } else if (any_size && matrices.of_any_size) {
        fragments.any_size = true;
        fragments.columns *= 2;
        fragments.depth *= 2;
        fragments.patch_rows = fragments.rows / 2;
    }
    return fragments;
}

MatrixFeatures::MatrixFeatures(const Matrices& matrices, const void* next) : chain_(next) {
    if (!has_fragment_sources || matrices.shapes.empty()) return;
    const auto add = [&](auto& features, const char* extension) {
        features.next = const_cast<void*>(chain_);
        chain_ = &features;
        extensions_.push_back(extension);
    };
    cooperative_.matrices = true;
    add(cooperative_, cooperative_extension);
    if (has_operands(matrices, Precision::bf16)) {
        bfloat16_.numbers = bfloat16_.matrices = true;
        add(bfloat16_, bfloat16_extension);
    }
    if (matrices.of_any_size) {
        cooperative2_.of_any_size = cooperative2_.functions_of_elements = true;
        cooperative2_.of_workgroups = matrices.of_workgroups;
        add(cooperative2_, cooperative2_extension);
    }
}

std::vector<std::uint32_t> as_bfloat16(std::span<const std::uint32_t> code) {
    constexpr std::uint32_t op_extension = 10, op_type_float = 22, float16_capability = 9,
                            bfloat16_type = 5116, bfloat16_matrices = 5118, bfloat16_encoding = 0;
    // "SPV_KHR_bfloat16" and a final 0, four characters a word
    constexpr std::uint32_t extension[] = {0x5f565053, 0x5f52484b, 0x6f6c6662, 0x36317461, 0};
    std::vector<std::uint32_t> changed(code.begin(), code.begin() + spirv_header);
    bool told = false;
    for (std::size_t i = spirv_header; i < code.size(); i += words(code[i])) {
        const bool capability = opcode(code[i]) == op_capability;
        if (!capability && !told) { // extensions follow capabilities
            changed.push_back((1 + std::uint32_t(std::size(extension))) << 16 | op_extension);
            changed.insert(changed.end(), std::begin(extension), std::end(extension));
            told = true;
        }
        if (capability && code[i + 1] == float16_capability)
            changed.insert(changed.end(), {2u << 16 | op_capability, bfloat16_type, 2u << 16 | op_capability,
                                           bfloat16_matrices});
        else if (opcode(code[i]) == op_type_float && code[i + 2] == 16)
            changed.insert(changed.end(), {4u << 16 | op_type_float, code[i + 1], 16, bfloat16_encoding});
        else
            changed.insert(changed.end(), &code[i], &code[i] + words(code[i]));
    }
    return changed;
}

} // namespace towers::vulkan
