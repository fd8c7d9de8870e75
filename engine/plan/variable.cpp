#include "engine/plan/variable.h"

#include "backends/checksum.h"

#include <cmath>
#include <numbers>
#include <random>

namespace towers {

std::vector<float> initial_values(const Variable& variable, std::uint64_t seed) {
    const Initial& initial = variable.initial;
    std::vector<float> values(variable.elements(), initial.value);
    if (initial.kind == Initial::Kind::constant) return values;
    // By its name each variable has a stream of its own, whatever else the model holds.
    std::mt19937_64 words(seed ^ fnv1a(variable.name));
    // The standard fixes the words but not the distributions; Box and Muller's method makes these normal.
    const auto unit = [&] { return (double(words() >> 11) + 0.5) * 0x1p-53; };
    const auto normal = [&] {
        // Separate statements, because in one statement compilers may draw the two numbers in either order.
        const double radius = std::sqrt(-2 * std::log(unit()));
        return radius * std::cos(2 * std::numbers::pi * unit());
    };
    for (float& value : values) {
        double drawn = 0;
        if (initial.kind == Initial::Kind::uniform)
            drawn = 2 * unit() - 1;
        else
            do drawn = normal();
            while (initial.kind == Initial::Kind::truncated_normal && std::abs(drawn) > 2);
        value = float(initial.scale * drawn);
    }
    return values;
}

} // namespace towers
