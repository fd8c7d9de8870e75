// PNG, through libspng.
#pragma once

#include "engine/data/raw_picture.h"

#include <cstdint>
#include <optional>
#include <span>

namespace towers {

/// The size of a PNG, 1 channel if it is grey. Nothing if these bytes end before it. Throws PictureError.
std::optional<ImageSize> read_png_header(std::span<const std::uint8_t> bytes);

/// Throws PictureError.
RawPicture decode_png(std::span<const std::uint8_t> bytes);

} // namespace towers
