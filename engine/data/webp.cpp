#include "engine/data/webp.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <limits>
#include <new>
#include <string_view>
#include <webp/decode.h>

namespace towers {

namespace {

constexpr std::size_t mark_bytes = 12, chunk_header_bytes = 8; // RIFF's

bool has_at(std::span<const std::uint8_t> bytes, std::size_t at, std::string_view mark) {
    return bytes.size() >= at + mark.size() &&
           std::ranges::equal(bytes.subspan(at, mark.size()), mark,
                              [](std::uint8_t byte, char c) { return byte == std::uint8_t(c); });
}

std::uint32_t size_at(std::span<const std::uint8_t> bytes, std::size_t at) {
    return bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 | std::uint32_t(bytes[at + 3]) << 24;
}

void check(VP8StatusCode status) {
    switch (status) {
    case VP8_STATUS_OK:
        return;
    case VP8_STATUS_OUT_OF_MEMORY:
        throw std::bad_alloc();
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
        throw PictureError("is cut short");
    default:
        throw PictureError(fmt::format("is damaged: libwebp gives error {}", int(status)));
    }
}

/// Looks at the chunks of a picture in the extended format.
unsigned orientation_of(PictureBytes& bytes) {
    constexpr std::size_t most = std::size_t(1) << 20; // of Exif or XMP, whose beginning counts
    Orientation orientation;
    for (std::uint64_t at = mark_bytes; at + chunk_header_bytes <= bytes.size();) {
        const auto header = bytes.at(at, chunk_header_bytes);
        const std::uint32_t size = size_at(header, 4);
        const bool is_exif = has_at(header, 0, "EXIF"), is_xmp = has_at(header, 0, "XMP ");
        at += chunk_header_bytes;
        if (is_exif || is_xmp) {
            const auto block = bytes.at(at, std::min<std::size_t>(size, most));
            if (is_exif)
                orientation.add_exif(block);
            else
                orientation.add_xmp({reinterpret_cast<const char*>(block.data()), block.size()});
        }
        at += std::uint64_t(size) + size % 2;
    }
    return orientation.value();
}

} // namespace

bool is_webp(std::span<const std::uint8_t> bytes) {
    return has_at(bytes, 0, "RIFF") && has_at(bytes, 8, "WEBP");
}

PictureHeader read_webp_header(PictureBytes& bytes) {
    constexpr std::size_t enough = 64; // for the header of each kind
    const auto begin = bytes.at(0, enough);
    if (begin.size() < mark_bytes + chunk_header_bytes ||
        std::uint64_t(size_at(begin, 4)) + chunk_header_bytes > bytes.size())
        throw PictureError("is cut short");
    WebPBitstreamFeatures features;
    check(WebPGetFeatures(begin.data(), begin.size(), &features));
    if (features.has_animation != 0) throw PictureError("is an animation; convert it to a picture");
    check_picture_size(std::uint64_t(features.height), std::uint64_t(features.width));
    const bool is_extended = has_at(begin, mark_bytes, "VP8X");
    return {{unsigned(features.height), unsigned(features.width), 3},
            is_extended ? orientation_of(bytes) : 1};
}

RawPicture decode_webp(std::span<const std::uint8_t> bytes) {
    PictureBytes all(bytes);
    const auto [size, orientation] = read_webp_header(all);
    const std::size_t count = size.elements();
    RawPicture picture{size.height, size.width, orientation,
                       std::unique_ptr<std::uint8_t[]>(new std::uint8_t[count])};
    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0) throw PictureError("needs another version of libwebp");
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {picture.pixels.get(), int(size.width) * 3, count};
    check(WebPDecode(bytes.data(), bytes.size(), &config));
    return picture;
}

} // namespace towers
