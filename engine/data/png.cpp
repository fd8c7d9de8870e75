#include "engine/data/png.h"

#include <fmt/format.h>
#include <new>
#include <spng.h>

namespace towers {

namespace {

struct Freer {
    void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, Freer>;

void check(int error) {
    if (error == SPNG_EMEM) throw std::bad_alloc();
    if (error != 0) throw PictureError(fmt::format("is damaged: libspng says '{}'", spng_strerror(error)));
}

Context open(std::span<const std::uint8_t> bytes) {
    Context png(spng_ctx_new(0));
    if (!png) throw std::bad_alloc();
    constexpr std::size_t most = std::size_t(64)
                                 << 20; // of the chunks that are no pixels, which may be bombs
    check(spng_set_chunk_limits(png.get(), most, most));
    check(spng_set_png_buffer(png.get(), bytes.data(), bytes.size()));
    return png;
}

spng_ihdr read_header(const Context& png) {
    spng_ihdr header{};
    check(spng_get_ihdr(png.get(), &header));
    check_picture_size(header.height, header.width);
    return header;
}

unsigned read_orientation(const Context& png) {
    spng_exif exif{};
    if (spng_get_exif(png.get(), &exif) != 0) return 1; // it has none, or the pixels' error will be the same
    return exif_orientation({reinterpret_cast<const std::uint8_t*>(exif.data), exif.length});
}

} // namespace

std::optional<ImageSize> read_png_header(std::span<const std::uint8_t> bytes) {
    if (constexpr std::size_t length = 33; bytes.size() < length) return std::nullopt;
    const spng_ihdr header = read_header(open(bytes));
    const bool grey = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE ||
                      header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
    return ImageSize{header.height, header.width, grey ? 1u : 3u};
}

RawPicture decode_png(std::span<const std::uint8_t> bytes) {
    const Context png = open(bytes);
    const spng_ihdr header = read_header(png);
    RawPicture picture{header.height, header.width, read_orientation(png), nullptr};
    std::size_t size = 0;
    check(spng_decoded_image_size(png.get(), SPNG_FMT_RGB8, &size));
    if (size != std::size_t(header.height) * header.width * 3)
        throw PictureError("is damaged: its pixels have another size");
    picture.pixels.reset(new std::uint8_t[size]);
    check(spng_decode_image(png.get(), picture.pixels.get(), size, SPNG_FMT_RGB8, 0));
    return picture;
}

} // namespace towers
