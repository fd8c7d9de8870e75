#include "tests/conformance/reference_histogram.h"

#include "backends/kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace towers::reference {

Histogram histogram(std::span<const float> values) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    Histogram found{std::vector<std::uint32_t>(HISTOGRAM_WORDS), infinity, -infinity, 0, 0};
    for (const float value : values) {
        if (!std::isfinite(value)) {
            ++found.counts[HISTOGRAM_NONFINITE];
            continue;
        }
        const double x = value;
        found.least = std::min(found.least, x);
        found.largest = std::max(found.largest, x);
        found.sum += x;
        found.squares += x * x;
        if (x == 0) {
            ++found.counts[HISTOGRAM_ZEROS];
            continue;
        }
        int place = 0;
        if (std::fabs(x) >= std::ldexp(1.0, -40)) {
            const int octave = std::ilogb(x);
            const double mantissa = std::ldexp(std::fabs(x), -octave); // in [1, 2)
            place = std::min(1 + 8 * (octave + 40) + int(std::floor((mantissa - 1) * 8)), 640);
        }
        ++found.counts[std::size_t(640 + (x > 0 ? place : -place))];
    }
    return found;
}

} // namespace towers::reference
