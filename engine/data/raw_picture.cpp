#include "engine/data/raw_picture.h"

#include <cstdint>
#include <fmt/format.h>

namespace towers {

void check_picture_size(std::uint64_t height, std::uint64_t width) {
    if (height == 0 || width == 0) throw PictureError("has no pixels");
    if (height > most_picture_pixels / width)
        throw PictureError(fmt::format("has {}x{} pixels, more than {} million", height, width,
                                       most_picture_pixels / 1'000'000));
}

} // namespace towers
