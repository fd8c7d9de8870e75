// The types of elements that tensors and the pointers of parameter blocks have.
#pragma once

#include <cstddef>
#include <cstdint>

namespace towers {

/// fixed64: whole numbers of 64 bits in two words, the low one first, in units of 2^-16. Unlike those of
/// float32, their sums have the same bits in any order.
enum class ElementType : std::uint8_t { float32, fixed64, uint32, uint8 };

constexpr std::size_t size_of(ElementType type) {
    return type == ElementType::fixed64 ? 8 : type == ElementType::uint8 ? 1 : 4;
}

/// Whether devices round elements, each in its own way; else every bit counts.
constexpr bool is_rounded(ElementType type) {
    return type == ElementType::float32 || type == ElementType::fixed64;
}

constexpr const char* name_of(ElementType type) {
    switch (type) {
    case ElementType::float32:
        return "float32";
    case ElementType::fixed64:
        return "fixed64";
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
