#include "engine/data/raw_picture.h"

#include <cstdint>
#include <cstring>
#include <fmt/format.h>

namespace towers {

void check_picture_size(std::uint64_t height, std::uint64_t width) {
    if (height == 0 || width == 0) throw PictureError("has no pixels");
    if (height > most_picture_pixels / width)
        throw PictureError(fmt::format("has {}x{} pixels, more than {} million", height, width,
                                       most_picture_pixels / 1'000'000));
}

unsigned exif_orientation(std::span<const std::uint8_t> exif) {
    const auto begins = [&](const char* mark) {
        return exif.size() >= 4 && std::memcmp(exif.data(), mark, 4) == 0;
    };
    const bool little = begins("II*\0");
    if (!little && !begins("MM\0*")) return 1;
    const auto number = [&](std::uint64_t at, unsigned bytes) { // 0 beyond the end
        std::uint32_t value = 0;
        for (unsigned i = 0; i < bytes && at + bytes <= exif.size(); ++i)
            value = value << 8 | exif[at + (little ? bytes - 1 - i : i)];
        return value;
    };
    constexpr unsigned orientation = 0x112, entry_bytes = 12;
    const std::uint64_t directory = number(4, 4);
    const unsigned entries = number(directory, 2);
    for (unsigned i = 0; i < entries; ++i) {
        const std::uint64_t entry = directory + 2 + std::uint64_t(i) * entry_bytes;
        if (number(entry, 2) != orientation) continue;
        const unsigned value = number(entry + 8, 2);
        return value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
}

} // namespace towers
