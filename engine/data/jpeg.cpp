#include "engine/data/jpeg.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <string_view>
#include <turbojpeg.h>

namespace towers {

namespace {

struct Destroyer {
    void operator()(void* handle) const { tjDestroy(handle); }
};
using Decompressor = std::unique_ptr<void, Destroyer>;

/// libjpeg repairs what it can and warns, the first time only. Where a part's data is damaged or ends early
/// it fills in what is no picture. Bytes that are too many harm nothing.
bool is_harmless(const Decompressor& jpeg) {
    const std::string_view message = tjGetErrorStr2(jpeg.get());
    const auto says = [&](std::string_view words) { return message.find(words) != message.npos; };
    const bool damaged = says("Corrupt JPEG data") && !says("extraneous bytes before marker");
    return tjGetErrorCode(jpeg.get()) == TJERR_WARNING && !damaged && !says("Premature end");
}

void check(const Decompressor& jpeg, int result) {
    if (result != 0 && !is_harmless(jpeg))
        throw PictureError(fmt::format("is damaged: libjpeg says '{}'", tjGetErrorStr2(jpeg.get())));
}

/// a b / 255, rounded, as Pillow computes it.
unsigned times(unsigned a, unsigned b) {
    const unsigned product = a * b + 128;
    return ((product >> 8) + product) >> 8;
}

/// Pillow's conversion. Files have the four colours as Adobe's programs write them: inverted.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, std::size_t pixels) {
    for (std::size_t i = 0; i < pixels; ++i)
        for (unsigned c = 0; c < 3; ++c) {
            const unsigned white = cmyk[4 * i + 3], ink = times(255u - cmyk[4 * i + c], white);
            rgb[3 * i + c] = std::uint8_t(white - ink);
        }
}

} // namespace

std::optional<JpegHeader> read_jpeg_header(std::span<const std::uint8_t> bytes) {
    const auto number = [&](std::size_t at) { return unsigned(bytes[at] << 8 | bytes[at + 1]); };
    unsigned orientation = 1;
    for (std::size_t at = 2; at + 10 <= bytes.size();) {
        const unsigned marker = bytes[at + 1];
        if (bytes[at] != 0xff || marker == 0xff || marker == 0) { // bytes between segments
            ++at;
            continue;
        }
        if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) { // without a segment
            at += 2;
            continue;
        }
        const bool is_frame =
            marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
        if (is_frame) {
            check_picture_size(number(at + 5), number(at + 7));
            return JpegHeader{number(at + 5), number(at + 7), bytes[at + 9] == 1 ? 1u : 3u, orientation, at};
        }
        const std::size_t length = number(at + 2), data = at + 4;
        if (marker == 0xd9 || marker == 0xda || length < 2)
            throw PictureError("is damaged: it is no JPEG beyond its first bytes");
        at += 2 + length;
        constexpr std::string_view exif("Exif\0\0", 6);
        if (marker == 0xe1 && at <= bytes.size() && length >= 2 + exif.size() &&
            std::equal(exif.begin(), exif.end(), bytes.begin() + std::ptrdiff_t(data)))
            orientation = exif_orientation(bytes.subspan(data + exif.size(), length - 2 - exif.size()));
    }
    return std::nullopt;
}

RawPicture decode_jpeg(std::span<const std::uint8_t> bytes, unsigned eighths) {
    const auto header = read_jpeg_header(bytes);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t end = text.rfind("\xff\xd9");
    if (!header || end == text.npos || end < header->length) throw PictureError("is cut short");
    const Decompressor jpeg(tjInitDecompress());
    if (!jpeg) throw std::bad_alloc();
    int width = 0, height = 0, subsampling = 0, colours = 0;
    check(jpeg, tjDecompressHeader3(jpeg.get(), bytes.data(), bytes.size(), &width, &height, &subsampling,
                                    &colours));
    if (width != int(header->width) || height != int(header->height))
        throw PictureError("is damaged: it has two sizes");
    RawPicture picture{scaled(header->height, eighths), scaled(header->width, eighths), header->orientation,
                       nullptr};
    const std::size_t pixels = std::size_t(picture.height) * picture.width;
    const bool printed = colours == TJCS_CMYK || colours == TJCS_YCCK;
    std::unique_ptr<std::uint8_t[]> decoded(new std::uint8_t[pixels * (printed ? 4 : 3)]);
    check(jpeg, tjDecompress2(jpeg.get(), bytes.data(), bytes.size(), decoded.get(), int(picture.width), 0,
                              int(picture.height), printed ? TJPF_CMYK : TJPF_RGB, TJFLAG_LIMITSCANS));
    if (printed) {
        picture.pixels.reset(new std::uint8_t[pixels * 3]);
        cmyk_to_rgb(decoded.get(), picture.pixels.get(), pixels);
    } else {
        picture.pixels = std::move(decoded);
    }
    return picture;
}

} // namespace towers
