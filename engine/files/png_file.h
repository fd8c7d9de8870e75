#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace towers {

/// Writes an image atomically. `pixels`: bytes [height][width][channels]; channels: 1 grey, or 3: red, green,
/// blue. Throws InputError if the file cannot be written.
void write_png(const std::filesystem::path& path, unsigned width, unsigned height, unsigned channels,
               std::span<const std::uint8_t> pixels);

} // namespace towers
