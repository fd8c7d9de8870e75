// JPEG, through libjpeg-turbo.
#pragma once

#include "engine/data/raw_picture.h"

#include <cstdint>
#include <optional>
#include <span>

namespace towers {

/// What a JPEG's first bytes tell.
struct JpegHeader {
    unsigned height, width, channels; ///< as stored: not yet upright
    unsigned orientation = 1;
    std::size_t length = 0; ///< bytes before the frame; those of a thumbnail are among them
};

/// Nothing if the header is longer than these bytes. Throws PictureError.
std::optional<JpegHeader> read_jpeg_header(std::span<const std::uint8_t> bytes);

/// Decodes at so many eighths of the size, 1 to 8. Throws PictureError.
RawPicture decode_jpeg(std::span<const std::uint8_t> bytes, unsigned eighths);

/// A side of so many pixels at so many eighths of the size.
constexpr unsigned scaled(unsigned side, unsigned eighths) {
    return unsigned((std::uint64_t(side) * eighths + 7) / 8);
}

} // namespace towers
