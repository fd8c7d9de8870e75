// A picture as its library decodes it: in colours, not yet upright.
#pragma once

#include "engine/data/orientation.h"
#include "engine/data/picture.h"

#include <memory>

namespace towers {

/// What a picture's file tells before it is decoded.
struct PictureHeader {
    ImageSize size; ///< as stored; 1 channel if it is grey, else 3
    unsigned orientation = 1;
};

struct RawPicture {
    unsigned height, width;                 ///< as stored
    unsigned orientation;                   ///< EXIF's, 1 to 8
    std::unique_ptr<std::uint8_t[]> pixels; ///< [height][width][3]: red, green, blue
};

/// Throws PictureError for a picture without pixels or with too many. To be called before memory is taken.
void check_picture_size(std::uint64_t height, std::uint64_t width);

} // namespace towers
