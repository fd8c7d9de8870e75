#include "engine/parity/difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace towers {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double compared(const uvec2& fixed) { return value_of(fixed); }
/// Any device may take a denormal number for zero.
double compared(float number) {
    return std::abs(number) < std::numeric_limits<float>::min() ? 0 : value_of(number);
}

/// Keeps the element that differs most.
void note(Difference& found, std::size_t element, double difference) {
    if (difference <= found.largest) return;
    found.largest = difference;
    found.worst = element;
}

template<class Number>
Difference compare_each(std::span<const Number> a, std::span<const Number> b) {
    Difference found{.elements = a.size()};
    double difference = 0, norm_a = 0, norm_b = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double x = compared(a[i]), y = compared(b[i]);
        if (std::isfinite(x) && std::isfinite(y)) {
            difference += (x - y) * (x - y);
            norm_a += x * x;
            norm_b += y * y;
            note(found, i, std::abs(x - y));
        } else if (std::isnan(x) && std::isnan(y)) {
            ++found.both_nan;
        } else if (x != y) {
            ++found.unequal;
            note(found, i, infinity);
        }
    }
    if (found.unequal > 0)
        found.relative_norm = infinity;
    else if (difference > 0)
        found.relative_norm = std::sqrt(difference / std::max(norm_a, norm_b));
    return found;
}

} // namespace

Difference compare_numbers(std::span<const float> a, std::span<const float> b) { return compare_each(a, b); }
Difference compare_numbers(std::span<const uvec2> a, std::span<const uvec2> b) { return compare_each(a, b); }

Difference compare_words(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) {
    Difference found{.elements = a.size()};
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i] == b[i]) continue;
        ++found.unequal;
        note(found, i, std::abs(double(a[i]) - double(b[i])));
    }
    if (found.unequal > 0) found.relative_norm = double(found.unequal) / double(found.elements);
    return found;
}

double relative_difference(float a, float b) { return compare_numbers({&a, 1}, {&b, 1}).relative_norm; }

} // namespace towers
