// What the kernel `histogram` finds, by logarithms instead of bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace towers::reference {

struct Histogram {
    std::vector<std::uint32_t> counts; ///< [HISTOGRAM_WORDS]
    double least, largest, sum, squares;
};
/// Of values of which at least one is finite.
Histogram histogram(std::span<const float> values);

} // namespace towers::reference
