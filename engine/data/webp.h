// WebP, through libwebp.
#pragma once

#include "engine/data/picture_bytes.h"
#include "engine/data/raw_picture.h"

#include <cstdint>
#include <span>

namespace towers {

/// Whether bytes begin as a WebP does, of which 12 suffice.
bool is_webp(std::span<const std::uint8_t> bytes);

/// Throws PictureError, also for an animation.
PictureHeader read_webp_header(PictureBytes& bytes);

/// Throws PictureError.
RawPicture decode_webp(std::span<const std::uint8_t> bytes);

} // namespace towers
