// PNG, through libspng.
#pragma once

#include "engine/data/picture_bytes.h"
#include "engine/data/raw_picture.h"

#include <cstdint>
#include <span>

namespace towers {

/// Throws PictureError.
PictureHeader read_png_header(PictureBytes& bytes);

/// Throws PictureError.
RawPicture decode_png(std::span<const std::uint8_t> bytes);

} // namespace towers
