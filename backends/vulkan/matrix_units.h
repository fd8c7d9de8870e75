// Matrix units of a Vulkan device: what its driver tells of them (VK_KHR_cooperative_matrix,
// VK_NV_cooperative_matrix2, VK_KHR_shader_bfloat16), and what it takes to use them.
#pragma once

#include "backends/launch/variants.h"
#include "backends/vulkan/headers.h"
#include "backends/vulkan/subgroups.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace towers::vulkan {

/// One of the products of matrices that a driver lists, rows x depth by depth x columns, added up in float32
struct MatrixShape {
    Precision operands; ///< bf16 or fp16
    unsigned rows, columns, depth;
};

/// What a driver tells of its cooperative matrices
struct Matrices {
    std::vector<MatrixShape> shapes; ///< of a subgroup
    bool of_any_size = false;        ///< also of multiples of the shapes, with functions of each element
    unsigned of_workgroups = 0; ///< the operands of those that a workgroup shares, of each tile: units_for()
    unsigned reserved_memory = 0; ///< bytes of a workgroup's shared memory that these need
};
/// No shapes: the device has no matrices, or lacks a feature that the sources by fragments need.
Matrices matrices_of(vk::Instance instance, const vk::raii::PhysicalDevice& device);

bool has_operands(const Matrices& matrices, Precision operands);

/// Whether this program has the sources by fragments, whose compiler must know these matrices
/// (cmake/Shaders.cmake)
extern const bool has_fragment_sources;

/// How the sources by fragments use them: by those of a workgroup, where there are some (NVIDIA's multiply
/// several times as fast as those of a subgroup), else by those of a subgroup. `any_size`: by those of any
/// size in any case. Without operands: they cannot.
Fragments fragments_of(const Matrices& matrices, const SubgroupSizes& sizes, bool any_size);

/// What a device is created with to use them: features, in a chain that ends in `next`, and extensions
class MatrixFeatures {
public:
    MatrixFeatures(const Matrices& matrices, const void* next);
    MatrixFeatures(const MatrixFeatures&) = delete;
    MatrixFeatures& operator=(const MatrixFeatures&) = delete;

    const void* chain() const { return chain_; }
    const std::vector<const char*>& extensions() const { return extensions_; }

    // As in headers from 1.4.311 on
    struct Cooperative {
        VkStructureType type = VkStructureType(1000506000);
        void* next = nullptr;
        VkBool32 matrices = false, robust_access = false;
    };
    struct Cooperative2 {
        VkStructureType type = VkStructureType(1000593000);
        void* next = nullptr;
        VkBool32 of_workgroups = false, of_any_size = false, reductions = false, conversions = false,
                 functions_of_elements = false, tensors = false, block_loads = false;
    };
    struct Bfloat16 {
        VkStructureType type = VkStructureType(1000141000);
        void* next = nullptr;
        VkBool32 numbers = false, dot_products = false, matrices = false;
    };

private:
    Cooperative cooperative_;
    Cooperative2 cooperative2_;
    Bfloat16 bfloat16_;
    const void* chain_;
    std::vector<const char*> extensions_;
};

/// The shader with bfloat16 instead of its float16, which it uses in matrices only. glslang knows that type
/// from version 15.3 on.
std::vector<std::uint32_t> as_bfloat16(std::span<const std::uint32_t> code);

} // namespace towers::vulkan
