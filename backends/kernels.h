// The names and launches of kernels in host code, made from shaders/kernels.def.
#pragma once

#include "backends/element_type.h"
#include "shaders/kernel.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace towers {

enum class Kernel : std::uint16_t {
#define TOWERS_KERNEL(name, Params, size, items) name,
#define TOWERS_TILED_KERNEL(name, Params, size) name,
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
};

/// What a kernel does with the memory of a pointer in its parameter block.
enum class Access : std::uint8_t { read, write, read_write };

/// What works on one item of a launch: an invocation, a subgroup, a workgroup, or a tile of a tiled kernel.
enum class Item : std::uint8_t { invocation, subgroup, workgroup, tile };

/// The bytes of a parameter block.
struct ParameterBlock {
    static constexpr std::size_t capacity = 128, most_pointers = capacity / sizeof(std::uint64_t);
    alignas(8) std::array<std::byte, capacity> bytes{};

    template<class Params>
    static ParameterBlock of(const Params& params) {
        static_assert(sizeof(Params) <= capacity && std::is_trivially_copyable_v<Params>);
        ParameterBlock block;
        std::memcpy(block.bytes.data(), &params, sizeof params);
        return block;
    }
    template<class Params>
    Params as() const {
        Params params;
        std::memcpy(&params, bytes.data(), sizeof params);
        return params;
    }
    /// The address in the block's `index`-th pointer.
    std::uint64_t pointer(std::size_t index) const {
        std::uint64_t address;
        std::memcpy(&address, bytes.data() + index * sizeof address, sizeof address);
        return address;
    }
    void set_pointer(std::size_t index, std::uint64_t address) {
        std::memcpy(bytes.data() + index * sizeof address, &address, sizeof address);
    }
};

struct KernelInfo {
    const char* name;
    unsigned workgroup_size;
    Item item;
    std::size_t parameter_bytes;
    std::span<const Access> pointers;      ///< of the parameter block, in order
    std::span<const ElementType> elements; ///< that each of them points to
    /// How many items a parameter block has: what the source counts in FOR_RANGE, FOR_SUBGROUPS or
    /// FOR_WORKGROUPS, of a tiled kernel the elements of its result.
    std::uint64_t (*items)(const ParameterBlock& parameters);
};

const KernelInfo& kernel_info(Kernel kernel);
std::span<const KernelInfo> all_kernels();

/// One kernel with its parameters. The backend chooses how many workgroups share its items, the tile and the
/// parts of a sum; the result does not depend on them, except for how a sum is rounded that is split.
struct Launch {
    Kernel kernel;
    ParameterBlock parameters;
    std::string_view label = {}; ///< for people; read while the launch is recorded
    /// The bytes from each pointer's address on that the launch may touch; 0: not known, or the pointer is
    /// null.
    std::array<std::size_t, ParameterBlock::most_pointers> extents{};
};

std::uint64_t items_of(const Launch& launch);

/// Ties a kernel to the type of its parameter block, so that no launch can mix them up.
template<class Params>
struct KernelHandle {
    Kernel kernel;
};

namespace kernels {
#define TOWERS_KERNEL(name, Params, size, items) inline constexpr KernelHandle<Params> name{Kernel::name};
#define TOWERS_TILED_KERNEL(name, Params, size) TOWERS_KERNEL(name, Params, size, )
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
} // namespace kernels

template<class Params>
Launch launch(KernelHandle<Params> kernel, const std::type_identity_t<Params>& params) {
    return {kernel.kernel, ParameterBlock::of(params)};
}

} // namespace towers
