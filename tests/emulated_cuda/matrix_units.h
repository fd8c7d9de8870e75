// Takes the place of shaders/dialect/matrix_units.h: the same instructions by PTX's tables. What all lanes
// bring is computed once; whoever does not come keeps the others waiting.
#ifndef TOWERS_SHADERS_DIALECT_MATRIX_UNITS_H
#define TOWERS_SHADERS_DIALECT_MATRIX_UNITS_H

#include "tests/emulated_cuda/words.h"

namespace emulated {

constexpr unsigned lanes = 32;

inline std::uint16_t to_bf16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if (std::isnan(x)) return 0x7fff;
    return std::uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
inline double of_bf16(std::uint32_t half) { return std::bit_cast<float>(half << 16); }

inline std::uint16_t to_fp16(float x) {
    const auto sign = std::uint16_t(std::bit_cast<std::uint32_t>(x) >> 16 & 0x8000u);
    const double size = std::fabs(double(x));
    if (std::isnan(x)) return 0x7fff;
    if (size >= 65520) return sign | 0x7c00u;
    const int exponent = std::max(size > 0 ? std::ilogb(size) : -14, -14);
    // In units of the last place, whose carry also counts the exponent up
    const auto units = std::uint32_t(std::nearbyint(std::ldexp(size, 10 - exponent)));
    return std::uint16_t(sign | (units + std::uint32_t(exponent + 14) * 1024u));
}
inline double of_fp16(std::uint32_t half) {
    const std::uint32_t exponent = half >> 10 & 31u, rest = half & 1023u;
    double size = exponent == 0 ? std::ldexp(rest, -24) : std::ldexp(1024 + rest, int(exponent) - 25);
    if (exponent == 31) size = rest != 0 ? NAN : INFINITY;
    return (half & 0x8000u) != 0 ? -size : size;
}

/// What an instruction brings of a lane: its words of A, B and C, or where its row begins.
struct Brought {
    std::uint32_t* words;
    const void* row;
    const std::uint32_t *a, *b;
    float* c;
};

template<bool transposed>
void load(std::uint32_t (&words)[4], const void* row, int line) {
    Brought mine{words, row, nullptr, nullptr, nullptr};
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) refuse_misaligned(row, 16);
    meet(
        &mine,
        [](void* const all[]) {
            for (unsigned matrix = 0; matrix < 4; ++matrix) {
                std::uint16_t numbers[8][8];
                for (unsigned i = 0; i < 8; ++i)
                    std::memcpy(numbers[i], static_cast<Brought*>(all[matrix * 8 + i])->row, 16);
                for (unsigned lane = 0; lane < lanes; ++lane) {
                    const unsigned row = lane / 4, column = lane % 4 * 2;
                    const auto number = [&](unsigned i) {
                        return std::uint32_t(transposed ? numbers[column + i][row]
                                                        : numbers[row][column + i]);
                    };
                    static_cast<Brought*>(all[lane])->words[matrix] = number(0) | number(1) << 16;
                }
            }
        },
        line);
}

/// The units add up exactly and then truncate.
inline float truncated(double sum) {
    const auto nearest = float(sum);
    return std::isfinite(nearest) && std::fabs(double(nearest)) > std::fabs(sum)
               ? std::nextafterf(nearest, 0.0f)
               : nearest;
}

/// m16n8k16, `number`: of 16 bits; or m16n8k8, of words
template<double (*number)(std::uint32_t), bool of_words>
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1, int line) {
    const std::uint32_t b[2] = {b0, b1};
    Brought mine{nullptr, nullptr, a, b, c};
    meet(
        &mine,
        [](void* const all[]) {
            constexpr unsigned depth = of_words ? 8 : 16, in_word = of_words ? 1 : 2;
            double rows[16][depth], columns[8][depth];
            for (unsigned lane = 0; lane < lanes; ++lane) {
                const auto& brought = *static_cast<Brought*>(all[lane]);
                const unsigned g = lane / 4, k = lane % 4 * in_word;
                for (unsigned i = 0; i < in_word; ++i) {
                    const auto of = [&](std::uint32_t word) {
                        return of_words ? number(word) : number(word >> 16 * i & 0xffffu);
                    };
                    for (unsigned word = 0; word < 4; ++word)
                        rows[g + word % 2 * 8][k + i + word / 2 * depth / 2] = of(brought.a[word]);
                    for (unsigned word = 0; word < 2; ++word)
                        columns[g][k + i + word * depth / 2] = of(brought.b[word]);
                }
            }
            for (unsigned lane = 0; lane < lanes; ++lane)
                for (unsigned i = 0; i < 4; ++i) {
                    float& sum = static_cast<Brought*>(all[lane])->c[i];
                    double exact = sum;
                    for (unsigned k = 0; k < depth; ++k)
                        exact += rows[lane / 4 + i / 2 * 8][k] * columns[lane % 4 * 2 + i % 2][k];
                    sum = truncated(exact);
                }
        },
        line);
}

inline double of_tf32(std::uint32_t word) { return std::bit_cast<float>(word & ~0x1fffu); }

} // namespace emulated

inline void load_matrices(std::uint32_t (&words)[4], const void* row, int line = __builtin_LINE()) {
    emulated::load<false>(words, row, line);
}
inline void load_transposed_matrices(std::uint32_t (&words)[4], const void* row,
                                     int line = __builtin_LINE()) {
    emulated::load<true>(words, row, line);
}
inline std::uint32_t load_word(const void* word) { return *static_cast<const std::uint32_t*>(word); }
inline void multiply_add_bf16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                              int line = __builtin_LINE()) {
    emulated::multiply_add<emulated::of_bf16, false>(c, a, b0, b1, line);
}
inline void multiply_add_fp16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                              int line = __builtin_LINE()) {
    emulated::multiply_add<emulated::of_fp16, false>(c, a, b0, b1, line);
}
inline void multiply_add_tf32(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                              int line = __builtin_LINE()) {
    emulated::multiply_add<emulated::of_tf32, true>(c, a, b0, b1, line);
}
inline std::uint32_t pack_bf16(float low, float high) {
    return emulated::to_bf16(low) | std::uint32_t(emulated::to_bf16(high)) << 16;
}
inline std::uint32_t pack_fp16(float low, float high) {
    return emulated::to_fp16(low) | std::uint32_t(emulated::to_fp16(high)) << 16;
}

#endif
