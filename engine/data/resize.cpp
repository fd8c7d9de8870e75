#include "engine/data/resize.h"

#include <algorithm>
#include <cmath>

namespace towers {

namespace {

constexpr int bits = 22; // of a weight's fraction

/// The mean of pixels that are `step` apart, rounded.
std::uint8_t weigh(const std::uint8_t* pixel, std::size_t step, const std::vector<std::int32_t>& weights) {
    std::int32_t sum = 1 << (bits - 1);
    for (const std::int32_t weight : weights) {
        sum += *pixel * weight;
        pixel += step;
    }
    return std::uint8_t(std::clamp(sum >> bits, 0, 255));
}

} // namespace

Resizer::Axis::Axis(unsigned from, unsigned to) {
    const double scale = double(from) / to, radius = std::max(scale, 1.0);
    const double inverse = 1 / radius; // Pillow multiplies by it, which rounds otherwise than a division
    std::vector<double> weights;
    for (unsigned i = 0; i < to; ++i) {
        const double center = (i + 0.5) * scale;
        const auto first = unsigned(std::max(center - radius + 0.5, 0.0));
        const auto end = unsigned(std::min(center + radius + 0.5, double(from)));
        weights.clear();
        double sum = 0;
        for (unsigned x = first; x < end; ++x) {
            weights.push_back(std::max(1 - std::abs((x - center + 0.5) * inverse), 0.0));
            sum += weights.back();
        }
        Taps made{first, {}};
        for (const double weight : weights)
            made.weights.push_back(std::int32_t(weight * (1 / sum) * (1 << bits) + 0.5));
        taps.push_back(std::move(made));
    }
}

Resizer::Resizer(Size from, Size to)
    : from_(from), to_(to), rows_(from.height, to.height), columns_(from.width, to.width) {}

void Resizer::resize(std::span<const std::uint8_t> from, std::span<std::uint8_t> to) const {
    std::vector<std::uint8_t> narrow(std::size_t(from_.height) * to_.width);
    for (std::size_t y = 0; y < from_.height; ++y)
        for (std::size_t x = 0; x < to_.width; ++x) {
            const Axis::Taps& taps = columns_.taps[x];
            narrow[y * to_.width + x] = weigh(&from[y * from_.width + taps.first], 1, taps.weights);
        }
    for (std::size_t y = 0; y < to_.height; ++y)
        for (std::size_t x = 0; x < to_.width; ++x) {
            const Axis::Taps& taps = rows_.taps[y];
            to[y * to_.width + x] = weigh(&narrow[taps.first * to_.width + x], to_.width, taps.weights);
        }
}

} // namespace towers
