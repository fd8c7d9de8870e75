#include "backends/precision.h"

#include <bit>
#include <cmath>

namespace towers {
namespace {

/// Keeps so many bits fewer of a float32's 24. NaN stays NaN: its payload could round up to infinity.
float without(float value, unsigned bits) {
    if (!std::isfinite(value)) return value;
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t half = (1u << (bits - 1)) - 1, odd = word >> bits & 1;
    return std::bit_cast<float>((word + half + odd) & ~((1u << bits) - 1));
}

float rounded_to_fp16(float value) {
    constexpr float least_normal = 0x1p-14f, overflow = 65520.0f;
    if (std::abs(value) >= overflow) return std::copysign(INFINITY, value);
    if (!(std::abs(value) < least_normal)) return without(value, 13);
    constexpr float unit = 0x1p-24f; // of numbers below the least normal one
    return std::copysign(std::nearbyint(value / unit) * unit, value);
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
    switch (operands) {
    case Precision::fp32:
        return value;
    case Precision::tf32:
        return without(value, 13);
    case Precision::bf16:
        return without(value, 16);
    case Precision::fp16:
        return rounded_to_fp16(value);
    }
    return value;
}

} // namespace towers
