#include "backends/kernels.h"

namespace towers {
namespace {

// A parameter block's type tells which pointers it has: the block is brace-initialized with stand-ins, the
// last of which converts to only one kind of pointer.
struct Anything {
    template<class T>
    operator T() const;
};
template<template<class> class Pointer>
struct Only {
    template<class T>
    operator Pointer<T>() const;
};

template<class Params, class Last, std::size_t... before>
consteval bool takes(std::index_sequence<before...>) {
    return requires { Params{(static_cast<void>(before), Anything{})..., Last{}}; };
}

template<class Params, std::size_t index = 0, class... Found>
consteval auto pointers(std::array<Access, index> found = {}) {
    const auto append = [&](Access access) {
        std::array<Access, index + 1> more{};
        std::copy(found.begin(), found.end(), more.begin());
        more[index] = access;
        return more;
    };
    constexpr auto before = std::make_index_sequence<index>{};
    if constexpr (takes<Params, Only<In>>(before))
        return pointers<Params, index + 1>(append(Access::read));
    else if constexpr (takes<Params, Only<Out>>(before))
        return pointers<Params, index + 1>(append(Access::write));
    else if constexpr (takes<Params, Only<InOut>>(before))
        return pointers<Params, index + 1>(append(Access::read_write));
    else
        return found;
}

template<class Params>
constexpr auto pointers_of = pointers<Params>();

template<>
constexpr auto pointers_of<AverageGradientsParams> = [] { // its array counts as one member above
    std::array<Access, AVERAGE_TOWERS + 1> access{};
    access.back() = Access::write;
    return access;
}();

template<>
constexpr auto pointers_of<SumGradientsParams> = [] {
    std::array<Access, SUMMED_TOWERS + 1> access{};
    access.back() = Access::write;
    return access;
}();

template<class Pointer>
struct Exactly {
    operator Pointer() const;
};

template<class Params, std::size_t index>
consteval Element element() {
    constexpr auto before = std::make_index_sequence<index>{};
    constexpr bool words =
        takes<Params, Exactly<In<uint>>>(before) || takes<Params, Exactly<In<uvec2>>>(before) ||
        takes<Params, Exactly<Out<uint>>>(before) || takes<Params, Exactly<InOut<uint>>>(before);
    return words ? Element::word : Element::number;
}

template<class Params>
constexpr auto elements_of = []<std::size_t... index>(std::index_sequence<index...>) {
    return std::array<Element, sizeof...(index)>{element<Params, index>()...};
}
(std::make_index_sequence<pointers_of<Params>.size()>{});

constexpr KernelInfo infos[] = {
#define TOWERS_KERNEL(name, Params, size)                                                                    \
    {#name, size, sizeof(Params), pointers_of<Params>, elements_of<Params>},
#define TOWERS_TILED_KERNEL(name, Params, size) TOWERS_KERNEL(name, Params, size)
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
};

} // namespace

const KernelInfo& kernel_info(Kernel kernel) { return infos[std::size_t(kernel)]; }
std::span<const KernelInfo> all_kernels() { return infos; }

} // namespace towers
