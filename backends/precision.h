// The types of numbers that products of matrices may round their operands to, on their way to the multipliers
// of a card or processor. Sums, and all that lies in memory, stay float32.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace towers {

/// What a user allows. A device that has no units for it multiplies in float32.
enum class Precision : std::uint8_t {
    fp32,
    tf32, ///< the range of float32, 11 bits
    bf16, ///< the range of float32, 8 bits
    fp16, ///< 11 bits; from 6e-8, in full from 6.1e-5, to 65,504
};
constexpr Precision all_precisions[] = {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16};

/// As on the command line: `bf16`
std::string_view name_of(Precision precision);
/// Nothing: there is none of that name.
std::optional<Precision> precision_of(std::string_view name);

/// The largest part by which rounding changes a number in the type's range: 2^-11 for tf32.
double rounding_of(Precision operands);

/// The number that is nearest, of two the even one; as all units round that round to nearest.
float rounded(float value, Precision operands);
/// `to` may be `from`.
void round_all(std::span<const float> from, Precision operands, float* to);

} // namespace towers
