#include "engine/data/mix.h"

#include "engine/data/philox.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace towers {
namespace {

/// In (0, 1).
double inner(PhiloxStream& random) { return (double(random.next()) + 0.5) / 4294967296.0; }

double normal(PhiloxStream& random) { // Box and Muller
    const double radius = std::sqrt(-2 * std::log(inner(random)));
    return radius * std::cos(2 * std::numbers::pi * inner(random));
}

/// The logarithm of a number that is distributed as Gamma(shape, 1) (Marsaglia and Tsang 2000, "A simple
/// method for generating gamma variables"), since with a small shape the number itself may be too small.
double log_gamma_variable(PhiloxStream& random, double shape) {
    if (shape < 1) {
        const double larger = log_gamma_variable(random, shape + 1);
        return larger + std::log(inner(random)) / shape;
    }
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
        const double x = normal(random), root = 1 + c * x;
        if (root <= 0) continue;
        const double v = root * root * root;
        if (std::log(inner(random)) < x * x / 2 + d - d * v + d * std::log(v)) return std::log(d * v);
    }
}

/// Of Beta(alpha, alpha), in steps of 2^-16: so coarse that all mathematics libraries give the same one.
float beta(PhiloxStream& random, double alpha) {
    const double a = log_gamma_variable(random, alpha), b = log_gamma_variable(random, alpha);
    return float(std::round(65536 / (1 + std::exp(b - a))) / 65536);
}

constexpr std::uint32_t packed(unsigned high, unsigned low) { return high << 16 | low; }

/// Without a partner.
Mix draw(const Mixing& mixing, PhiloxStream& random, const Shape& image) {
    if (random.unit() >= mixing.probability) return {};
    const bool cuts = mixing.mixup == 0 || (mixing.cutmix > 0 && random.unit() < mixing.cutmix_probability);
    if (!cuts) return {.part = beta(random, double(mixing.mixup)), .size = packed(image.height, image.width)};
    // timm's rand_bbox: the area's root of each side, around any pixel, as far as it lies within the image
    const double side = std::sqrt(double(beta(random, double(mixing.cutmix))));
    const auto cut = [&](unsigned of) {
        const auto half = unsigned(double(of) * side) / 2;
        const unsigned centre = random.below(of), begin = centre - std::min(centre, half);
        return std::pair(begin, std::min(centre + half, of) - begin);
    };
    const auto [top, height] = cut(image.height);
    const auto [left, width] = cut(image.width);
    if (height == 0 || width == 0) return {};
    return {.part = 1, .corner = packed(top, left), .size = packed(height, width)};
}

} // namespace

std::vector<Mix> mixes_of(const Mixing& mixing, std::uint64_t seed, std::uint64_t first,
                          std::uint32_t examples, const Shape& image) {
    PhiloxStream random(seed, RandomPurpose::mixing, std::uint32_t(first), std::uint32_t(first >> 32));
    std::vector<std::uint32_t> cycle;
    put_in_order(cycle, examples);
    shuffle(cycle, random);
    std::vector<Mix> mixes(examples);
    const Mix of_all = mixing.by_example ? Mix{} : draw(mixing, random, image);
    for (std::uint32_t i = 0; i < examples; ++i) mixes[cycle[i]].partner = cycle[(i + 1) % examples];
    for (Mix& mix : mixes) {
        const std::uint32_t partner = mix.partner;
        mix = mixing.by_example ? draw(mixing, random, image) : of_all;
        mix.partner = partner;
    }
    return mixes;
}

} // namespace towers
