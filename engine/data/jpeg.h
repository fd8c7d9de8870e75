// JPEG, through libjpeg-turbo.
#pragma once

#include "engine/data/picture_bytes.h"
#include "engine/data/raw_picture.h"

#include <cstdint>
#include <span>

namespace towers {

struct JpegHeader : PictureHeader {
    unsigned components = 0;  ///< 4: the colours of printing
    std::uint64_t length = 0; ///< bytes before the frame; those of a thumbnail are among them
};

/// Throws PictureError.
JpegHeader read_jpeg_header(PictureBytes& bytes);

/// Decodes at so many eighths of the size, 1 to 8. Throws PictureError.
RawPicture decode_jpeg(std::span<const std::uint8_t> bytes, unsigned eighths);

/// A side of so many pixels at so many eighths of the size.
constexpr unsigned scaled(unsigned side, unsigned eighths) {
    return unsigned((std::uint64_t(side) * eighths + 7) / 8);
}

} // namespace towers
