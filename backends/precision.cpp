#include "backends/precision.h"

#include <bit>
#include <cmath>

namespace towers {
namespace {

/// Keeps so many bits fewer of a float32's 24. NaN stays NaN: its payload could round up to infinity.
template<unsigned bits>
float without(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t half = (1u << (bits - 1)) - 1, odd = word >> bits & 1;
    const auto nearest = std::bit_cast<float>((word + half + odd) & ~((1u << bits) - 1));
    return value != value ? value : nearest;
}

float to_fp16(float value) {
    constexpr float least_normal = 0x1p-14f, overflow = 65520.0f;
    constexpr float same_units = 0.75f; // a float32 whose last digit is that of fp16's smallest numbers
    const float normal = without<13>(value);
    const float tiny = std::copysign((std::abs(value) + same_units) - same_units, value);
    const float finite = std::abs(value) < least_normal ? tiny : normal;
    return std::abs(value) >= overflow ? std::copysign(INFINITY, value) : finite;
}

template<class Round>
void round_all(std::span<const float> from, float* to, const Round& round) {
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = round(from[i]);
}

} // namespace

std::string_view name_of(Precision precision) {
    switch (precision) {
    case Precision::fp32:
        return "fp32";
    case Precision::tf32:
        return "tf32";
    case Precision::bf16:
        return "bf16";
    case Precision::fp16:
        return "fp16";
    }
    return "";
}

std::optional<Precision> precision_of(std::string_view name) {
    for (const Precision each : all_precisions)
        if (name_of(each) == name) return each;
    return std::nullopt;
}

double rounding_of(Precision operands) {
    switch (operands) {
    case Precision::fp32:
        return 0x1p-24;
    case Precision::tf32:
    case Precision::fp16:
        return 0x1p-11;
    case Precision::bf16:
        return 0x1p-8;
    }
    return 0;
}

float rounded(float value, Precision operands) {
    round_all({&value, 1}, operands, &value);
    return value;
}

void round_all(std::span<const float> from, Precision operands, float* to) {
    switch (operands) {
    case Precision::fp32:
        return round_all(from, to, [](float value) { return value; });
    case Precision::tf32:
        return round_all(from, to, without<13>);
    case Precision::bf16:
        return round_all(from, to, without<16>);
    case Precision::fp16:
        return round_all(from, to, to_fp16);
    }
}

} // namespace towers
