// The difference between two devices' values of one tensor.
#pragma once

#include "backends/kernels.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace towers {

struct Difference {
    std::size_t elements = 0;
    /// Elements whose difference is not rounding: words with different bits, and numbers of which one is
    /// infinite or NaN and the other is not the same.
    std::size_t unequal = 0;
    std::size_t both_nan = 0; ///< numbers that are NaN in both, which counts as equal
    /// ||a - b|| over the larger of ||a|| and ||b||, infinite when there are unequal numbers. Of words: the
    /// fraction that is unequal.
    double relative_norm = 0;
    double largest = 0;    ///< of all |a - b|; infinite when there are unequal numbers
    std::size_t worst = 0; ///< the element with that difference, the first of several
};

/// Compares numbers, of type float32 or fixed64. A NaN equals a NaN, since both devices computed the same. A
/// denormal float32 counts as zero. The spans must have equal lengths.
Difference compare_numbers(std::span<const float> a, std::span<const float> b);
Difference compare_numbers(std::span<const uvec2> a, std::span<const uvec2> b);

/// The value of an element of type float32, uint32 or fixed64
constexpr double value_of(float number) { return number; }
constexpr double value_of(std::uint32_t word) { return word; }
constexpr double value_of(const uvec2& fixed) { return fixed.y * 0x1p16 + fixed.x * 0x1p-16; }

/// Compares uint32 words, such as labels and places, which must be equal.
Difference compare_words(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b);

/// |a - b| over the larger of |a| and |b|; infinite when relative_norm would be.
double relative_difference(float a, float b);

} // namespace towers
