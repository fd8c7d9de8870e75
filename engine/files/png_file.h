// Writes PNG files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace towers {

struct PngSize {
    std::uint32_t width, height;
    unsigned channels; ///< 1 grey, 3 red, green, blue; 8 bits each
};

/// A PNG file's bytes. `pixels`: [height][width][channels]. Throws InputError if libspng refuses.
std::string encode_png(const PngSize& size, std::span<const std::uint8_t> pixels);

/// The same to a file. Writes as write_output() does. Throws InputError if that fails.
void write_png(const std::filesystem::path& path, const PngSize& size, std::span<const std::uint8_t> pixels);

} // namespace towers
