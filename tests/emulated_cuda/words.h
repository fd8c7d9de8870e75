// nvcc's words for the host's compiler, as far as shaders/dialect/cuda.h uses them. Included before a
// kernel's source.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#define __CUDACC__
#define __device__
#define __host__
#define __global__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static __attribute__((section("emulated_shared")))

namespace emulated {

struct Index {
    unsigned x;
};
/// Where the running thread is.
struct Place {
    Index thread, block, threads, blocks;
};
extern Place here;

/// A barrier of the block, at which all its threads must stand. `site`: its place in the source, since the
/// compiler may make several calls of one
void sync_threads(int site);
/// The value of the lane whose number differs in these bits. All lanes of the warp take part, at the same
/// line of the source.
std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned lane_mask, int line);
/// Once all lanes of the warp have come to a line, each with what it brings, `together` sees it, by lane;
/// then they go on.
void meet(void* brought, void (*together)(void* const by_lane[]), int line);
[[noreturn]] void refuse_misaligned(const void* address, std::size_t bytes);

} // namespace emulated

#define threadIdx (emulated::here.thread)
#define blockIdx (emulated::here.block)
#define blockDim (emulated::here.threads)
#define gridDim (emulated::here.blocks)
#define __syncthreads() emulated::sync_threads(__COUNTER__)

// Vectors have their own size's alignment, as on the device, so that the processor faults on others.
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

template<class T>
T __ldg(const T* address) {
    if (reinterpret_cast<std::uintptr_t>(address) % sizeof(T) != 0)
        emulated::refuse_misaligned(address, sizeof(T));
    return *address;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(std::uint64_t(a) * b >> 32); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline unsigned atomicAdd(unsigned* word, unsigned number) {
    return __atomic_fetch_add(word, number, __ATOMIC_RELAXED);
}
inline unsigned atomicOr(unsigned* word, unsigned bits) {
    return __atomic_fetch_or(word, bits, __ATOMIC_RELAXED);
}
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

template<class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned lane_mask, int line = __builtin_LINE()) {
    std::uint64_t bits = 0;
    static_assert(sizeof value <= sizeof bits);
    std::memcpy(&bits, &value, sizeof value);
    bits = emulated::exchange(mask, bits, lane_mask, line);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
