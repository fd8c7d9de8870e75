#ifndef TOWERS_SHADERS_ROUNDED_WORDS_H
#define TOWERS_SHADERS_ROUNDED_WORDS_H

// Numbers of 16 bits, rounded to the nearest, of two the even one. By integers, since drivers choose how
// their own conversion rounds, and whether it keeps denormal numbers.

FUNCTION uint bf16_of(float x) {
    const uint bits = as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16u | 0x40u; // NaN
    return (bits + 0x7fffu + (bits >> 16u & 1u)) >> 16u;
}

FUNCTION uint fp16_of(float x) {
    const uint sign = as_uint(x) >> 16u & 0x8000u;
    const uint size = as_uint(x) & 0x7fffffffu;
    if (size > 0x7f800000u) return sign | 0x7e00u;  // NaN
    if (size >= 0x477ff000u) return sign | 0x7c00u; // from 65,520 on, infinity
    // Below 2^-14 they are multiples of 2^-24, as the sums with 1/2 are.
    if (size < 0x38800000u) return sign | (as_uint(as_float(size) + 0.5f) - as_uint(0.5f));
    return sign | (size - 0x38000000u + 0xfffu + (size >> 13u & 1u)) >> 13u;
}

// Two of them, the first in the lower half of the word
FUNCTION uint pack_bf16(float low, float high) { return bf16_of(low) | bf16_of(high) << 16u; }
FUNCTION uint pack_fp16(float low, float high) { return fp16_of(low) | fp16_of(high) << 16u; }

#endif
