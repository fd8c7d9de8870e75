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

unsigned number(std::span<const std::uint8_t> bytes, std::size_t at) {
    return unsigned(bytes[at] << 8 | bytes[at + 1]);
}

/// Throws PictureError for components whose samples do not divide those of the densest one, which libjpeg
/// would refuse only when it decodes. `components`: 3 bytes each, of which the second one says how dense.
void check_sampling(std::span<const std::uint8_t> components) {
    unsigned across = 0, down = 0;
    for (std::size_t i = 1; i < components.size(); i += 3) {
        across = std::max(across, components[i] / 16u);
        down = std::max(down, components[i] % 16u);
    }
    for (std::size_t i = 1; i < components.size(); i += 3)
        if (const unsigned x = components[i] / 16u, y = components[i] % 16u;
            x != 0 && y != 0 && (across % x != 0 || down % y != 0))
            throw PictureError(
                "has colours sampled at a fraction, which libjpeg does not decode; convert it");
}

/// Of an APP1 segment, what Exif or XMP say.
void add_application_data(std::span<const std::uint8_t> data, Orientation& orientation) {
    constexpr std::string_view exif("Exif\0\0", 6), xmp("http://ns.adobe.com/xap/1.0/\0", 29);
    const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
    if (text.starts_with(exif)) orientation.add_exif(data);
    if (text.starts_with(xmp)) orientation.add_xmp(text.substr(xmp.size()));
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

JpegHeader read_jpeg_header(PictureBytes& bytes) {
    Orientation orientation;
    for (std::uint64_t at = 2;;) {
        const std::span<const std::uint8_t> head = bytes.at(at, 10);
        if (head.size() < 10) throw PictureError("is cut short");
        const unsigned marker = head[1];
        if (head[0] != 0xff || marker == 0xff || marker == 0) { // bytes between segments
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
            const unsigned height = number(head, 5), width = number(head, 7), components = head[9];
            check_picture_size(height, width);
            check_sampling(bytes.at(at + 10, std::size_t(3) * components));
            return {{{height, width, components == 1 ? 1u : 3u}, orientation.value()}, components, at};
        }
        const unsigned length = number(head, 2);
        if (marker == 0xd9 || marker == 0xda || length < 2)
            throw PictureError("is damaged: it is no JPEG beyond its first bytes");
        if (marker == 0xe1) add_application_data(bytes.at(at + 4, length - 2), orientation);
        at += 2 + length;
    }
}

RawPicture decode_jpeg(std::span<const std::uint8_t> bytes, unsigned eighths) {
    PictureBytes all(bytes);
    const JpegHeader header = read_jpeg_header(all);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t end = text.rfind("\xff\xd9");
    if (end == text.npos || end < header.length) throw PictureError("is cut short");
    const Decompressor jpeg(tjInitDecompress());
    if (!jpeg) throw std::bad_alloc();
    int width = 0, height = 0, subsampling = 0, colours = 0;
    const int read =
        tjDecompressHeader3(jpeg.get(), bytes.data(), bytes.size(), &width, &height, &subsampling, &colours);
    // A sampling without a name is an error there, once the size is told; it can be decoded nevertheless.
    if (subsampling >= 0 || width <= 0) check(jpeg, read);
    if (width != int(header.size.width) || height != int(header.size.height))
        throw PictureError("is damaged: it has two sizes");
    RawPicture picture{scaled(header.size.height, eighths), scaled(header.size.width, eighths),
                       header.orientation, nullptr};
    const std::size_t pixels = std::size_t(picture.height) * picture.width;
    const bool printed = header.components == 4;
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
