#include "tests/conformance/reference.h"

#include <algorithm>
#include <cmath>

namespace towers::reference {

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t first = std::uint64_t(0xD2511F53) * counter[0];
        const std::uint64_t second = std::uint64_t(0xCD9E8D57) * counter[2];
        counter = {std::uint32_t(second >> 32) ^ counter[1] ^ key[0], std::uint32_t(second),
                   std::uint32_t(first >> 32) ^ counter[3] ^ key[1], std::uint32_t(first)};
        key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
    }
    return counter;
}

Distortion draw_distortion(std::uint64_t seed, uint record, uint epoch, const CropShape& shape) {
    const std::array<std::uint32_t, 2> key{std::uint32_t(seed), std::uint32_t(seed >> 32)};
    const auto place = philox4x32_10({record, epoch, 0, 0}, key);
    const auto light = philox4x32_10({record, epoch, 1, 0}, key);
    const auto below = [](std::uint32_t word, uint count) { return uint(std::uint64_t(word) * count >> 32); };
    // The upper 24 bits, as many as a float holds
    const auto uniform = [](std::uint32_t word, double low, double high) {
        return low + (high - low) * double(word >> 8) / double(1 << 24);
    };
    return {below(place[0], shape.height - shape.crop_height + 1),
            below(place[1], shape.width - shape.crop_width + 1), place[2] % 2 == 1,
            uniform(light[0], -63, 63), uniform(light[1], 0.2, 1.8)};
}

Distortion centre_crop(const CropShape& shape) {
    return {(shape.height - shape.crop_height) / 2, (shape.width - shape.crop_width) / 2, false, 0, 1};
}

Values distort(const std::uint8_t* image, const CropShape& shape, const Distortion& distortion) {
    const std::size_t pixels = std::size_t(shape.crop_height) * shape.crop_width;
    Values result(pixels * 3);
    for (uint channel = 0; channel < 3; ++channel)
        for (uint row = 0; row < shape.crop_height; ++row)
            for (uint column = 0; column < shape.crop_width; ++column) {
                const uint from = distortion.flip ? shape.crop_width - 1 - column : column;
                const std::size_t y = row + distortion.top, x = from + distortion.left;
                result[(row * shape.crop_width + column) * 3 + channel] =
                    image[(channel * shape.height + y) * shape.width + x] + distortion.brightness;
            }
    for (uint channel = 0; channel < 3; ++channel) {
        double mean = 0;
        for (std::size_t i = 0; i < pixels; ++i) mean += result[i * 3 + channel] / double(pixels);
        for (std::size_t i = 0; i < pixels; ++i)
            result[i * 3 + channel] = (result[i * 3 + channel] - mean) * distortion.contrast + mean;
    }
    const double count = double(result.size());
    double mean = 0, variance = 0;
    for (const double value : result) mean += value / count;
    for (const double value : result) variance += (value - mean) * (value - mean) / count;
    const double deviation = std::max(std::sqrt(variance), 1 / std::sqrt(count));
    for (double& value : result) value = (value - mean) / deviation;
    return result;
}

} // namespace towers::reference
