#include "engine/data/resize.h"

#include <algorithm>
#include <cmath>

namespace towers {

namespace {

constexpr int bits = 22; // of a weight's fraction

/// `to` [width][height] of `from` [height][width].
std::vector<std::uint8_t> transposed(std::span<const std::uint8_t> from, std::size_t height,
                                     std::size_t width) {
    constexpr std::size_t block = 16; // whose rows and columns stay in the cache
    std::vector<std::uint8_t> to(from.size());
    for (std::size_t top = 0; top < height; top += block)
        for (std::size_t left = 0; left < width; left += block)
            for (std::size_t x = left; x < std::min(left + block, width); ++x)
                for (std::size_t y = top; y < std::min(top + block, height); ++y)
                    to[x * height + y] = from[y * width + x];
    return to;
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

// A row of sums at a time, so that the compiler uses vectors. Sums of integers have the same bits in any
// order.
void Resizer::Axis::weigh(std::span<const std::uint8_t> from, std::size_t length,
                          std::span<std::uint8_t> to) const {
    std::vector<std::int32_t> sums(length);
    for (std::size_t i = 0; i < taps.size(); ++i) {
        std::ranges::fill(sums, 1 << (bits - 1));
        const std::uint8_t* row = &from[taps[i].first * length];
        for (const std::int32_t weight : taps[i].weights) {
            for (std::size_t k = 0; k < length; ++k) sums[k] += row[k] * weight;
            row += length;
        }
        for (std::size_t k = 0; k < length; ++k)
            to[i * length + k] = std::uint8_t(std::clamp(sums[k] >> bits, 0, 255));
    }
}

void Resizer::resize(std::span<const std::uint8_t> from, std::span<std::uint8_t> to) const {
    const std::vector<std::uint8_t> columns = transposed(from, from_.height, from_.width);
    std::vector<std::uint8_t> narrow(std::size_t(from_.height) * to_.width);
    columns_.weigh(columns, from_.height, narrow);
    rows_.weigh(transposed(narrow, to_.width, from_.height), to_.width, to);
}

} // namespace towers
