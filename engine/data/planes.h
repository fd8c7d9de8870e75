// The two orders of a picture's bytes: planes, as data sets have them, and pixels, as files do.
#pragma once

#include <cstdint>
#include <span>

namespace towers {

/// Fills planes [channels][pixels] from pixels [pixels][channels].
inline void to_planes(std::span<const std::uint8_t> pixels, unsigned channels,
                      std::span<std::uint8_t> planes) {
    const std::size_t plane = planes.size() / channels;
    for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t i = 0; i < plane; ++i) planes[c * plane + i] = pixels[i * channels + c];
}

/// Fills pixels [pixels][channels] from planes [channels][pixels].
inline void to_pixels(std::span<const std::uint8_t> planes, unsigned channels,
                      std::span<std::uint8_t> pixels) {
    const std::size_t plane = planes.size() / channels;
    for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t i = 0; i < plane; ++i) pixels[i * channels + c] = planes[c * plane + i];
}

} // namespace towers
