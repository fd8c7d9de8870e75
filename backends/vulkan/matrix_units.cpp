#include "backends/vulkan/matrix_units.h"

#include "backends/launch/tiles.h"
#include "backends/vulkan/spirv_words.h"

#include <algorithm>
#include <utility>

namespace towers::vulkan {
namespace {

constexpr const char* cooperative_extension = "VK_KHR_cooperative_matrix";
constexpr const char* cooperative2_extension = "VK_NV_cooperative_matrix2";
constexpr const char* bfloat16_extension = "VK_KHR_shader_bfloat16";

// As in headers from 1.4.311 on
constexpr std::int32_t float16 = 0, float32 = 1, bfloat16 = 1000141000; // VkComponentTypeKHR
constexpr std::int32_t workgroup_scope = 2, subgroup_scope = 3;         // VkScopeKHR
struct CooperativeShape {                                               // VkCooperativeMatrixPropertiesKHR
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

struct Granularity { // VkCooperativeMatrixFlexibleDimensionsPropertiesNV
    VkStructureType type = VkStructureType(1000593001);
    void* next = nullptr;
    std::uint32_t rows = 0, columns = 0, depth = 0;
    std::int32_t a = 0, b = 0, c = 0, result = 0;
    VkBool32 saturating = false;
    std::int32_t scope = 0;
    std::uint32_t invocations = 0;
};

/// What a function of this name lists
template<class Properties>
std::vector<Properties> list(vk::Instance instance, const vk::raii::PhysicalDevice& device,
                             const char* name) {
    using List = VkResult(VKAPI_PTR*)(VkPhysicalDevice, std::uint32_t*, Properties*);
    const auto function =
        reinterpret_cast<List>(device.getDispatcher()->vkGetInstanceProcAddr(instance, name));
    std::uint32_t count = 0;
    if (function == nullptr || function(*device, &count, nullptr) != VK_SUCCESS) return {};
    std::vector<Properties> all(count);
    if (function(*device, &count, all.data()) != VK_SUCCESS) return {};
    all.resize(count);
    return all;
}

/// Whether a workgroup can share matrices as large as the tile, and slices of any depth.
bool suits(const Granularity& each, const Tile& tile, std::int32_t type) {
    const auto divides = [](std::uint32_t part, unsigned whole) { return part != 0 && whole % part == 0; };
    return each.scope == workgroup_scope && each.invocations == tile.threads && each.a == type &&
           each.b == type && each.c == float32 && each.result == float32 && divides(each.rows, tile.height) &&
           divides(each.columns, tile.width) && divides(each.depth, 16);
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
    for (const CooperativeShape& each :
         list<CooperativeShape>(instance, device, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")) {
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
    if (!matrices.of_any_size || !second.of_workgroups) return matrices;
    Cooperative2Properties properties;
    VkPhysicalDeviceProperties2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &properties, {}};
    device.getDispatcher()->vkGetPhysicalDeviceProperties2(*device, &all);
    matrices.reserved_memory = properties.reserved_memory;
    const auto granularities = list<Granularity>(
        instance, device, "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV");
    for (const auto& [operands, type] : {std::pair(Precision::fp16, float16), {Precision::bf16, bfloat16}})
        if (std::ranges::all_of(fragment_tiles, [&](const Tile& tile) {
                return std::ranges::any_of(granularities,
                                           [&](const Granularity& each) { return suits(each, tile, type); });
            }))
            matrices.of_workgroups |= units_for(operands);
    return matrices;
}

bool has_operands(const Matrices& matrices, Precision operands) {
    return std::ranges::find(matrices.shapes, operands, &MatrixShape::operands) != matrices.shapes.end();
}

Fragments fragments_of(const Matrices& matrices, const SubgroupSizes& sizes, bool any_size) {
    // The least is what Intel's units work with, and as good as another on other cards.
    const bool asks = sizes.least != sizes.most;
    const unsigned largest = std::ranges::max(fragment_tiles, {}, &Tile::threads).threads;
    if (sizes.least == 0 || (asks && (!sizes.on_request || largest / sizes.least > sizes.most_subgroups)))
        return {};
    Fragments fragments{
        .in_parts = false, .rows = 0, .invocations = sizes.least, .subgroup_size = asks ? sizes.least : 0};
    // Of the shapes into which slices can be cut, 16x16x16 or the largest, and all types that have it
    const auto better = [&](const MatrixShape& shape) {
        if (shape.rows == 0 || shape.columns == 0 || 32 % shape.columns != 0 || shape.depth == 0 ||
            16 % shape.depth != 0)
            return false;
        const auto size = [](unsigned rows, unsigned columns, unsigned depth) {
            return rows == 16 && columns == 16 && depth == 16 ? ~0u : rows * columns * depth;
        };
        return fragments.rows == 0 || size(shape.rows, shape.columns, shape.depth) >
                                          size(fragments.rows, fragments.columns, fragments.depth);
    };
    for (const MatrixShape& shape : matrices.shapes)
        if (better(shape)) {
            fragments.rows = fragments.patch_rows = shape.rows;
            fragments.columns = shape.columns;
            fragments.depth = shape.depth;
        }
    if (fragments.rows == 0) return {};
    if (matrices.of_workgroups != 0) {
        fragments.operands = matrices.of_workgroups;
        fragments.in_parts = fragments.any_size = fragments.of_workgroup = true;
        fragments.patch_rows = 32;
        fragments.reserved_memory = matrices.reserved_memory;
        return fragments;
    }
    for (const MatrixShape& shape : matrices.shapes)
        if (shape.rows == fragments.rows && shape.columns == fragments.columns &&
            shape.depth == fragments.depth)
            fragments.operands |= units_for(shape.operands);
    if (any_size) {
        if (!matrices.of_any_size) return {};
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
        cooperative2_.of_workgroups = matrices.of_workgroups != 0;
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
