// A picture as its library decodes it: in colours, not yet upright.
#pragma once

#include "engine/data/picture.h"

#include <memory>

namespace towers {

struct RawPicture {
    unsigned height, width;                 ///< as stored
    unsigned orientation;                   ///< EXIF's, 1 to 8
    std::unique_ptr<std::uint8_t[]> pixels; ///< [height][width][3]: red, green, blue
};

/// Throws PictureError for a picture without pixels or with too many. To be called before memory is taken.
void check_picture_size(std::uint64_t height, std::uint64_t width);

/// The orientation in EXIF's data, which begin with TIFF's header; 1 if there is none. Trusts no offset.
unsigned exif_orientation(std::span<const std::uint8_t> exif);

/// Whether an orientation turns height into width.
constexpr bool turns(unsigned orientation) { return orientation >= 5; }

} // namespace towers
