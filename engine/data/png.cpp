#include "engine/data/png.h"

#include "engine/data/png_chunks.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <optional>
#include <spng.h>

namespace towers {

namespace {

struct Freer {
    void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, Freer>;

void check(int error) {
    if (error == SPNG_EMEM) throw std::bad_alloc();
    if (error == SPNG_IO_EOF) throw PictureError("is cut short");
    if (error != 0) throw PictureError(fmt::format("is damaged: libspng says '{}'", spng_strerror(error)));
}

/// Hands a file to libspng without the chunks that are not needed for its pixels, of which it would keep all
/// or refuse many.
class Pixels {
public:
    explicit Pixels(std::span<const std::uint8_t> bytes) : bytes_(bytes), size_(bytes.size()) {}

    /// For spng_set_png_stream()
    static int read(spng_ctx*, void* pixels, void* target, std::size_t count) {
        return static_cast<Pixels*>(pixels)->take(static_cast<std::uint8_t*>(target), count) ? 0
                                                                                             : SPNG_IO_EOF;
    }

private:
    /// Returns whether there are so many.
    bool take(std::uint8_t* target, std::size_t count) {
        while (count > 0) {
            if (at_ == end_) find_next();
            const auto some = bytes_.at(at_, std::size_t(std::min<std::uint64_t>(count, end_ - at_)));
            if (some.empty()) return false;
            target = std::ranges::copy(some, target).out;
            at_ += some.size();
            count -= some.size();
        }
        return true;
    }

    /// Goes on to the next chunk that is needed. What is no chunk is for libspng to refuse.
    void find_next() {
        std::optional<PngChunk> chunk;
        while ((chunk = png_chunk_at(bytes_, at_)) && chunk->is_ancillary() && chunk->end() <= size_)
            at_ = chunk->end();
        end_ = chunk ? chunk->end() : size_;
    }

    PictureBytes bytes_;
    std::uint64_t size_, at_ = 0, end_ = png_mark_bytes; ///< of the chunk that is being read
};

Context open(Pixels& pixels) {
    Context png(spng_ctx_new(0));
    if (!png) throw std::bad_alloc();
    check(spng_set_png_stream(png.get(), Pixels::read, &pixels));
    return png;
}

spng_ihdr read_header(const Context& png) {
    spng_ihdr header{};
    check(spng_get_ihdr(png.get(), &header));
    check_picture_size(header.height, header.width);
    return header;
}

} // namespace

PictureHeader read_png_header(PictureBytes& bytes) {
    Pixels begin(bytes.at(0, 33)); // the header's chunk
    const spng_ihdr header = read_header(open(begin));
    const bool grey = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE ||
                      header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
    return {{header.height, header.width, grey ? 1u : 3u}, png_orientation(bytes)};
}

RawPicture decode_png(std::span<const std::uint8_t> bytes) {
    PictureBytes all(bytes);
    Pixels pixels(bytes);
    const Context png = open(pixels);
    const spng_ihdr header = read_header(png);
    RawPicture picture{header.height, header.width, png_orientation(all), nullptr};
    std::size_t size = 0;
    check(spng_decoded_image_size(png.get(), SPNG_FMT_RGB8, &size));
    if (size != std::size_t(header.height) * header.width * 3)
        throw PictureError("is damaged: its pixels have another size");
    picture.pixels.reset(new std::uint8_t[size]);
    check(spng_decode_image(png.get(), picture.pixels.get(), size, SPNG_FMT_RGB8, 0));
    return picture;
}

} // namespace towers
