// Rounds sizes up.
#pragma once

#include <cstddef>
#include <cstdint>

namespace towers {

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

/// Slices of memory begin at multiples of this, so that vector loads are aligned and slices share no cache
/// line.
constexpr std::size_t slice_alignment = 256;
constexpr std::size_t aligned(std::size_t bytes) {
    return ceil_div(bytes, slice_alignment) * slice_alignment;
}

} // namespace towers
