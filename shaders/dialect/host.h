// The kernel dialect for the host's C++ compiler: a kernel becomes a function over the part of its items that
// one thread takes; a subgroup and a workgroup have one lane. Host code that fills parameter blocks includes
// it too.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <glm/common.hpp>
#include <glm/exponential.hpp>
#include <glm/vec2.hpp>
#include <glm/vec4.hpp>

namespace towers {

using uint = std::uint32_t;
using glm::uvec2;
using glm::uvec4;
using glm::vec4;

// Device addresses as the kernels see them. Host code only carries them, unless the device is the host.
template<class T>
struct In {
    const T* at;
};
template<class T>
struct Out {
    T* at;
};
template<class T>
struct InOut {
    T* at;
};
#include "shaders/dialect/tensor_types.h"

// One thread's share of a launch: thread `id` of `count`.
struct Invocation {
    uint id, count;
    uint begin(uint items) const { return uint(std::uint64_t(items) * id / count); }
    uint end(uint items) const { return uint(std::uint64_t(items) * (id + 1) / count); }
};

// GLSL's built-in functions, for the kernels' sources only.
namespace dialect {
using glm::max;
using glm::min;
using glm::sqrt;
using std::exp;
using std::floor;
using std::fma;
using std::log;
using std::pow;
using std::sqrt;
inline vec4 fma(const vec4& a, const vec4& b, const vec4& c) {
    return {fma(a.x, b.x, c.x), fma(a.y, b.y, c.y), fma(a.z, b.z, c.z), fma(a.w, b.w, c.w)};
}
inline float fast_sqrt(float x) { return std::sqrt(x); }
inline vec4 fast_quotient(const vec4& a, const vec4& b) { return a / b; }
inline float inversesqrt(float x) { return 1.0f / std::sqrt(x); }
inline vec4 inversesqrt(const vec4& x) { return 1.0f / glm::sqrt(x); }
template<class T>
T subgroupAdd(const T& x) {
    return x;
}
inline float subgroupMax(float x) { return x; }
template<class T>
T workgroupAdd(const T& x) {
    return x;
}
inline uint mul_high(uint a, uint b) { return uint(std::uint64_t(a) * b >> 32); }
inline float as_float(uint bits) { return std::bit_cast<float>(bits); }
inline uint as_uint(float x) { return std::bit_cast<uint>(x); }
inline bool is_finite(float x) { return (std::bit_cast<uint>(x) & 0x7f800000u) != 0x7f800000u; }
} // namespace dialect

} // namespace towers

#define KERNEL(name, Params, size) void name(const Params& p, Invocation invocation)
#define SUBGROUP_LANE 0u
#define SUBGROUP_SIZE 1u
#define LOCAL_ID 0u
#define WORKGROUP_SIZE 1u
// Tells GCC that items are independent, which it cannot see through the pointers. Clang checks at run time
// whether they overlap, which is as fast; its own pragma would also let it reorder sums.
#ifdef __clang__
#define INDEPENDENT
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
#define FOR_RANGE(i, items)                                                                                  \
    const uint i##_end = invocation.end(items);                                                              \
    INDEPENDENT for (uint i = invocation.begin(items); i < i##_end; ++i)
// The elements of the items that ELEMENT_ITEMS(elements) counts
#define FOR_ELEMENTS(i, elements)                                                                            \
    const uint i##_size = (elements) % 4u == 0u ? 4u : 1u;                                                   \
    const uint i##_end = invocation.end(ELEMENT_ITEMS(elements)) * i##_size;                                 \
    INDEPENDENT for (uint i = invocation.begin(ELEMENT_ITEMS(elements)) * i##_size; i < i##_end; ++i)
#define FOR_SUBGROUPS(i, items)                                                                              \
    const uint i##_end = invocation.end(items);                                                              \
    for (uint i = invocation.begin(items); i < i##_end; ++i)
#define FOR_WORKGROUPS(i, items) FOR_SUBGROUPS(i, items)
#define UNROLL
#define WORKGROUP_OF(size)
#define ADD_ATOMICALLY(word, number) __atomic_fetch_add(&(word), number, __ATOMIC_RELAXED)
#define OR_ATOMICALLY(word, bits) __atomic_fetch_or(&(word), bits, __ATOMIC_RELAXED)
#define ADD_TO_SHARED(word, number) (word) += (number) // a workgroup is one invocation
// Always, for GCC leaves out some in a file with as many kernels as host_kernels.cpp has.
#define FUNCTION [[gnu::always_inline]] inline
#define PRECISE // see glsl.h
