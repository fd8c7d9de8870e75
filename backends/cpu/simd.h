// Vectors of floats for the processor that a file is compiled for: AVX-512, AVX2 with FMA, or arm64's NEON.
// Include it only from files that are compiled for one processor level and that use no inline function or
// template of a library: the linker keeps one copy of those for the whole program.
#pragma once

#include <cstddef>
#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif

namespace towers {
namespace {

using std::size_t;

#if defined(__AVX512F__)
using Vector = __m512;
inline Vector load(const float* from) { return _mm512_loadu_ps(from); }
inline void store(float* to, Vector v) { _mm512_storeu_ps(to, v); }
inline Vector all(float value) { return _mm512_set1_ps(value); }
/// a * b + c, rounded once
inline Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
/// Zero where a value is below zero; keeps a NaN.
inline Vector relu(Vector v) { return _mm512_max_ps(all(0.0f), v); }
/// v where x is above zero, else zero
inline Vector where_positive(Vector x, Vector v) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, all(0.0f), _CMP_GT_OQ), v);
}
#elif defined(__AVX2__)
using Vector = __m256;
inline Vector load(const float* from) { return _mm256_loadu_ps(from); }
inline void store(float* to, Vector v) { _mm256_storeu_ps(to, v); }
inline Vector all(float value) { return _mm256_set1_ps(value); }
/// a * b + c, rounded once
inline Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
/// Zero where a value is below zero; keeps a NaN.
inline Vector relu(Vector v) { return _mm256_max_ps(all(0.0f), v); }
/// v where x is above zero, else zero
inline Vector where_positive(Vector x, Vector v) {
    return _mm256_and_ps(_mm256_cmp_ps(x, all(0.0f), _CMP_GT_OQ), v);
}
#else
using Vector = float32x4_t;
inline Vector load(const float* from) { return vld1q_f32(from); }
inline void store(float* to, Vector v) { vst1q_f32(to, v); }
inline Vector all(float value) { return vdupq_n_f32(value); }
/// a * b + c, rounded once
inline Vector fma(Vector a, Vector b, Vector c) { return vfmaq_f32(c, a, b); }
/// Zero where a value is below zero; keeps a NaN.
inline Vector relu(Vector v) { return vmaxq_f32(all(0.0f), v); }
/// v where x is above zero, else zero
inline Vector where_positive(Vector x, Vector v) {
    return vreinterpretq_f32_u32(vandq_u32(vcgtq_f32(x, all(0.0f)), vreinterpretq_u32_f32(v)));
}
#endif

constexpr size_t lanes = sizeof(Vector) / sizeof(float);

/// The first `count` of a vector's floats; the others are zero.
inline Vector load_first(const float* from, size_t count) {
    float values[lanes] = {};
    for (size_t i = 0; i < count; ++i) values[i] = from[i];
    return load(values);
}
inline void store_first(float* to, Vector v, size_t count) {
    float values[lanes];
    store(values, v);
    for (size_t i = 0; i < count; ++i) to[i] = values[i];
}

/// A number that is known when the program is compiled
template<size_t number>
struct Number {
    static constexpr size_t value = number;
};

constexpr size_t least(size_t a, size_t b) { return a < b ? a : b; }

} // namespace
} // namespace towers
