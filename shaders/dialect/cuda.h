// The kernel dialect for nvcc: a kernel becomes a __global__ function, a subgroup is a warp.
#pragma once

#include <cuda.h> // before GLM, which looks for it
#pragma nv_diagnostic push
#pragma nv_diag_suppress 20012 // GLM marks defaulted functions as __device__, which they are anyway
#include <glm/vec2.hpp>
#include <glm/vec4.hpp>
#pragma nv_diagnostic pop

namespace towers::cuda_text {

using uint = unsigned int;
using glm::uvec2;
using glm::uvec4;
using glm::vec4;

// GLM's vectors have the alignment of their elements, so the compiler would load and store one element at a
// time. The machine's own type for the same bytes moves them at once.
template<class T>
struct Whole {
    using type = T;
};
template<>
struct Whole<vec4> {
    using type = float4;
};
template<>
struct Whole<uvec2> {
    using type = uint2;
};
template<>
struct Whole<uvec4> {
    using type = uint4;
};

inline __device__ float from_whole(float x) { return x; }
inline __device__ uint from_whole(uint x) { return x; }
inline __device__ vec4 from_whole(float4 x) { return vec4(x.x, x.y, x.z, x.w); }
inline __device__ uvec2 from_whole(uint2 x) { return uvec2(x.x, x.y); }
inline __device__ uvec4 from_whole(uint4 x) { return uvec4(x.x, x.y, x.z, x.w); }
inline __device__ float to_whole(float x) { return x; }
inline __device__ uint to_whole(uint x) { return x; }
inline __device__ uint2 to_whole(const uvec2& x) { return make_uint2(x.x, x.y); }
inline __device__ uint4 to_whole(const uvec4& x) { return make_uint4(x.x, x.y, x.z, x.w); }
inline __device__ float4 to_whole(const vec4& x) { return make_float4(x.x, x.y, x.z, x.w); }

// Memory that no one writes during the launch, through the read-only cache
template<class T>
struct In {
    struct {
        const typename Whole<T>::type* elements;
        __device__ T operator[](uint i) const { return from_whole(__ldg(elements + i)); }
    } at;
};

// One element that is written, and read if T is an input too
template<class T>
struct Element {
    typename Whole<T>::type* element;
    __device__ void operator=(const T& value) const { *element = to_whole(value); }
    __device__ void operator=(const Element& other) const { *element = *other.element; }
    __device__ operator T() const { return from_whole(*element); }
    __device__ float& operator[](uint i) const { return reinterpret_cast<float*>(element)[i]; } // of a vec4
};
template<class T>
struct InOut {
    struct {
        typename Whole<T>::type* elements;
        __device__ Element<T> operator[](uint i) const { return {elements + i}; }
    } at;
};
template<class T>
struct Out : InOut<T> {};

#include "shaders/dialect/tensor_types.h"

// The same tensor, four elements at once
inline __device__ In_f32x4 in_quads(In_f32 x) { return {{reinterpret_cast<const float4*>(x.at.elements)}}; }
inline __device__ Out_f32x4 out_quads(Out_f32 x) {
    Out_f32x4 quads;
    quads.at.elements = reinterpret_cast<float4*>(x.at.elements);
    return quads;
}

template<class T, uint count>
struct Shared {
    typename Whole<T>::type elements[count];
    __device__ Element<T> operator[](uint i) { return {elements + i}; }
};

// GLSL's built-in functions
inline __device__ float min(float a, float b) { return fminf(a, b); }
inline __device__ float max(float a, float b) { return fmaxf(a, b); }
inline __device__ float exp(float x) { return expf(x); }
inline __device__ float floor(float x) { return floorf(x); }
inline __device__ float fma(float a, float b, float c) { return fmaf(a, b, c); }
inline __device__ float inversesqrt(float x) { return rsqrtf(x); }
inline __device__ float log(float x) { return logf(x); }
inline __device__ float pow(float x, float y) { return powf(x, y); }
inline __device__ float sqrt(float x) { return sqrtf(x); }
inline __device__ vec4 fma(const vec4& a, const vec4& b, const vec4& c) {
    return vec4(fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z), fmaf(a.w, b.w, c.w));
}
// As good as GLSL's own, whose errors are some units in the last place, without the branches of exact ones
inline __device__ float fast_sqrt(float x) { return x == 0.0f ? 0.0f : x * rsqrtf(x); }
inline __device__ vec4 fast_quotient(const vec4& a, const vec4& b) {
    return vec4(__fdividef(a.x, b.x), __fdividef(a.y, b.y), __fdividef(a.z, b.z), __fdividef(a.w, b.w));
}
inline __device__ vec4 inversesqrt(const vec4& x) {
    return vec4(rsqrtf(x.x), rsqrtf(x.y), rsqrtf(x.z), rsqrtf(x.w));
}
inline __device__ vec4 sqrt(const vec4& x) { return vec4(sqrtf(x.x), sqrtf(x.y), sqrtf(x.z), sqrtf(x.w)); }
inline __device__ uint max(uint a, uint b) { return a > b ? a : b; }
inline __device__ uint min(uint a, uint b) { return a < b ? a : b; }
inline __device__ uint mul_high(uint a, uint b) { return __umulhi(a, b); }
inline __device__ float as_float(uint bits) { return __uint_as_float(bits); }
inline __device__ uint as_uint(float x) { return __float_as_uint(x); }
inline __device__ bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }
#define ADD_ATOMICALLY(word, number) atomicAdd((word).element, number)
#define OR_ATOMICALLY(word, bits) atomicOr((word).element, bits)
#define ADD_TO_SHARED(word, number) atomicAdd(&(word), number)
#define barrier() __syncthreads()

template<class T>
__device__ T subgroupAdd(T x) { // every lane gets the same bits: a + b is b + a
    for (uint distance = 16u; distance > 0u; distance /= 2u) x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}
inline __device__ float subgroupMax(float x) {
    for (uint distance = 16u; distance > 0u; distance /= 2u)
        x = max(x, __shfl_xor_sync(0xffffffffu, x, distance));
    return x;
}
inline __device__ vec4 subgroupAdd(const vec4& x) {
    return vec4(subgroupAdd(x.x), subgroupAdd(x.y), subgroupAdd(x.z), subgroupAdd(x.w));
}
inline __device__ uvec4 subgroupAdd(const uvec4& x) {
    return uvec4(subgroupAdd(x.x), subgroupAdd(x.y), subgroupAdd(x.z), subgroupAdd(x.w));
}

} // namespace towers::cuda_text

// The size of a workgroup, and how many shall fit on a multiprocessor
#ifndef LAUNCH_BOUNDS
#define LAUNCH_BOUNDS(size) size
#endif
#define KERNEL(name, Params, size)                                                                           \
    __global__ void __launch_bounds__(LAUNCH_BOUNDS(size)) name(const __grid_constant__ Params p)
#define WORKGROUP_OF(size)
#define GROUP_ID blockIdx.x
#define GROUPS gridDim.x
#define LOCAL_ID threadIdx.x
#define WORKGROUP_SIZE blockDim.x
#define SUBGROUP_SIZE 32u
#define SUBGROUP_LANE (threadIdx.x % SUBGROUP_SIZE)
#define FOR_RANGE(i, count)                                                                                  \
    for (uint i = blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += gridDim.x * blockDim.x)
#define SUBGROUP_ID (threadIdx.x / SUBGROUP_SIZE)
#define SUBGROUPS (blockDim.x / SUBGROUP_SIZE)
#define UNROLL _Pragma("unroll")
// nvcc chooses the unrolling well; "unroll 4" costs registers.
#define FOR_PARTLY_UNROLLED(i, count) for (uint i = 0u; i < (count); ++i)
#define FUNCTION inline __device__
#define PRECISE // see glsl.h
#define shared __shared__
#define SHARED_QUADS(name, count) __shared__ Shared<vec4, count> name
#define SHARED_WORD_QUADS(name, count) __shared__ Shared<uvec4, count> name
