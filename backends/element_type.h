// The types of elements that tensors and the pointers of parameter blocks have.
#pragma once

#include <cstddef>
#include <cstdint>

namespace towers {

enum class ElementType : std::uint8_t { float32, uint32, uint8 };

constexpr std::size_t size_of(ElementType type) { return type == ElementType::uint8 ? 1 : 4; }

/// Whether elements are numbers, which devices round each in their own way; else every bit counts.
constexpr bool is_floating(ElementType type) { return type == ElementType::float32; }

constexpr const char* name_of(ElementType type) {
    switch (type) {
    case ElementType::float32:
        return "float32";
    case ElementType::uint32:
        return "uint32";
    case ElementType::uint8:
        return "uint8";
    }
    return "";
}

/// Whether a pointer to one type may point to a tensor of another: kernels read bytes four to a word.
constexpr bool can_point_to(ElementType pointer, ElementType tensor) {
    return pointer == tensor || (pointer == ElementType::uint32 && tensor == ElementType::uint8);
}

} // namespace towers
