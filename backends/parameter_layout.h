// Derives the pointers of a parameter block from its type. A block that cannot be read does not compile.
#pragma once

#include "backends/kernels.h"

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace towers::layout {

// The block is brace-initialized with stand-ins, of which the last one converts to only some types. An array
// counts as its elements, a nested block as one member.
struct Anything {
    template<class T>
    operator T() const;
};
template<template<class> class Pointer>
struct PointerOfKind {
    template<class T>
    operator Pointer<T>() const;
};
template<class Pointer>
struct Exactly {
    operator Pointer() const;
};
struct Scalar {
    template<class T>
    requires(std::is_arithmetic_v<T> && sizeof(T) == 4) operator T() const;
};
template<std::size_t bytes> // 0: any size
struct Nested {
    template<class T>
    requires(std::is_class_v<T> && alignof(T) == 4 && (bytes == 0 || sizeof(T) == bytes)) operator T() const;
};

template<class Params, class Last, std::size_t... before>
consteval bool takes(std::index_sequence<before...>) {
    return requires { Params{(static_cast<void>(before), Anything{})..., Last{}}; };
}

enum class Kind { none, unknown, read, write, read_write, words };

/// The kind of member `index`; none if there are fewer members.
template<class Params, std::size_t index>
consteval Kind kind_of() {
    constexpr auto before = std::make_index_sequence<index>{};
    if constexpr (!takes<Params, Anything>(before))
        return Kind::none;
    else if constexpr (takes<Params, PointerOfKind<In>>(before))
        return Kind::read;
    else if constexpr (takes<Params, PointerOfKind<Out>>(before))
        return Kind::write;
    else if constexpr (takes<Params, PointerOfKind<InOut>>(before))
        return Kind::read_write;
    else if constexpr (takes<Params, Nested<0>>(before) || takes<Params, Scalar>(before))
        return Kind::words;
    else
        return Kind::unknown;
}

template<class Params, std::size_t index = 0>
consteval std::size_t count_members() {
    if constexpr (kind_of<Params, index>() == Kind::none)
        return index;
    else
        return count_members<Params, index + 1>();
}

template<class Params>
constexpr auto kinds_of = []<std::size_t... index>(std::index_sequence<index...>) {
    return std::array<Kind, sizeof...(index)>{kind_of<Params, index>()...};
}
(std::make_index_sequence<count_members<Params>()>{});

constexpr bool is_pointer(Kind kind) {
    return kind == Kind::read || kind == Kind::write || kind == Kind::read_write;
}

template<class Params>
constexpr std::size_t pointer_count = [] {
    std::size_t count = 0;
    for (const Kind kind : kinds_of<Params>) count += is_pointer(kind) ? 1 : 0;
    return count;
}();

template<class Params>
consteval bool pointers_come_first() {
    for (std::size_t i = 0; i < kinds_of<Params>.size(); ++i)
        if (is_pointer(kinds_of<Params>[i]) != (i < pointer_count<Params>)) return false;
    return true;
}

template<class Params>
consteval bool all_members_known() {
    for (const Kind kind : kinds_of<Params>)
        if (kind == Kind::unknown) return false;
    return true;
}

/// The kind of a member that is not a pointer. Tries the largest, a nested block, first, because its first
/// scalar alone would also fit.
template<class Params, std::size_t index, std::size_t bytes = ParameterBlock::capacity>
consteval std::size_t bytes_of() {
    constexpr auto before = std::make_index_sequence<index>{};
    if constexpr (!takes<Params, Nested<0>>(before) || bytes == 0)
        return 4;
    else if constexpr (takes<Params, Nested<bytes>>(before))
        return bytes;
    else
        return bytes_of<Params, index, bytes - 4>();
}

/// The bytes of a block's words, which follow its pointers.
template<class Params>
consteval std::size_t word_bytes() {
    return []<std::size_t... index>(std::index_sequence<index...>) {
        return (std::size_t(0) + ... + (is_pointer(kinds_of<Params>[index]) ? 0 : bytes_of<Params, index>()));
    }
    (std::make_index_sequence<kinds_of<Params>.size()>{});
}

/// The size of a block with exactly these pointers and words.
template<class Params>
consteval std::size_t expected_bytes() {
    return (pointer_count<Params> * 8 + word_bytes<Params>() + 7) / 8 * 8;
}

template<class Params, std::size_t index, class T>
consteval bool points_to() {
    constexpr auto before = std::make_index_sequence<index>{};
    return takes<Params, Exactly<In<T>>>(before) || takes<Params, Exactly<Out<T>>>(before) ||
           takes<Params, Exactly<InOut<T>>>(before);
}

template<class Params, std::size_t index>
consteval ElementType element_of() {
    if constexpr (points_to<Params, index, float>() || points_to<Params, index, vec4>()) {
        return ElementType::float32;
    } else if constexpr (points_to<Params, index, uvec2>()) {
        return ElementType::fixed64;
    } else {
        static_assert(points_to<Params, index, uint>() || points_to<Params, index, uvec4>(),
                      "a pointer to elements of an unknown type: say in element_of() which they are");
        return ElementType::uint32;
    }
}

/// Checks at compile time that a block can be read: `true`, or it does not compile.
template<class Params>
consteval bool readable() {
    static_assert(std::is_aggregate_v<Params>, "a parameter block is a plain struct");
    static_assert(
        all_members_known<Params>(),
        "a parameter block has pointers (In_, Out_, InOut_) and 32-bit scalars, or structs of these");
    static_assert(pointer_count<Params> > 0, "a parameter block has at least one pointer");
    static_assert(pointers_come_first<Params>(), "a parameter block has its pointers first");
    static_assert(sizeof(Params) == expected_bytes<Params>(),
                  "a parameter block has no padding, and no pointers in nested structs");
    static_assert(sizeof(Params) <= ParameterBlock::capacity, "a parameter block has at most 128 bytes");
    return true;
}

template<class Params>
requires(readable<Params>()) constexpr auto pointers_of = [
]<std::size_t... index>(std::index_sequence<index...>) {
    constexpr auto access = [](Kind kind) {
        return kind == Kind::read ? Access::read : kind == Kind::write ? Access::write : Access::read_write;
    };
    return std::array<Access, sizeof...(index)>{access(kinds_of<Params>[index])...};
}
(std::make_index_sequence<pointer_count<Params>>{});

template<class Params>
constexpr auto elements_of = []<std::size_t... index>(std::index_sequence<index...>) {
    return std::array<ElementType, sizeof...(index)>{element_of<Params, index>()...};
}
(std::make_index_sequence<pointer_count<Params>>{});

} // namespace towers::layout
