#include "engine/data/picture.h"

#include "engine/data/byte_budget.h"
#include "engine/data/converted.h"
#include "engine/data/jpeg.h"
#include "engine/data/png.h"
#include "engine/data/resize.h"
#include "engine/data/webp.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace towers {

namespace {

bool begins_with(std::span<const std::uint8_t> bytes, std::string_view mark) {
    return bytes.size() >= mark.size() &&
           std::ranges::equal(bytes.first(mark.size()), mark,
                              [](std::uint8_t byte, char c) { return byte == std::uint8_t(c); });
}

bool is_jpeg(std::span<const std::uint8_t> bytes) { return begins_with(bytes, "\xff\xd8\xff"); }
bool is_png(std::span<const std::uint8_t> bytes) { return begins_with(bytes, "\x89PNG\r\n\x1a\n"); }

/// What other pictures begin with, and are called.
struct OtherFormat {
    std::string_view mark, name;
};

[[noreturn]] void refuse_other(std::span<const std::uint8_t> bytes) {
    using namespace std::string_view_literals; // TIFF's mark contains a zero
    constexpr OtherFormat others[] = {
        {"GIF8"sv, "GIF"sv}, {"BM"sv, "BMP"sv}, {"II*\0"sv, "TIFF"sv}, {"MM\0*"sv, "TIFF"sv}};
    if (bytes.empty()) throw PictureError("is empty");
    for (const auto& [mark, name] : others)
        if (begins_with(bytes, mark))
            throw PictureError(fmt::format("is {}, neither JPEG, PNG nor WebP", name));
    throw PictureError("is neither JPEG, PNG nor WebP");
}

/// The size of a picture that is upright.
Resizer::Size upright(const RawPicture& picture) {
    return turns(picture.orientation) ? Resizer::Size{picture.width, picture.height}
                                      : Resizer::Size{picture.height, picture.width};
}

/// A part of an upright picture.
struct Box {
    unsigned top, left;
    Resizer::Size size;
};

/// The largest box in the middle with the aspect of `size`, to whole pixels.
Box centre_box(Resizer::Size picture, ImageSize size) {
    const auto side = [](std::uint64_t other, unsigned by, unsigned to, unsigned most) {
        return unsigned(std::clamp<std::uint64_t>((2 * other * by + to) / (2 * std::uint64_t(to)), 1, most));
    };
    Box box{0, 0, picture};
    if (std::uint64_t(picture.height) * size.width < std::uint64_t(picture.width) * size.height)
        box.size.width = side(picture.height, size.width, size.height, picture.width);
    else
        box.size.height = side(picture.width, size.height, size.width, picture.height);
    box.top = (picture.height - box.size.height) / 2;
    box.left = (picture.width - box.size.width) / 2;
    return box;
}

/// The box as planes, upright.
std::vector<std::uint8_t> planes_of(const RawPicture& picture, const Box& box) {
    const auto [height, width] = box.size;
    const std::size_t plane = std::size_t(height) * width;
    // EXIF's orientations: which axes of the stored picture are reversed, once they are exchanged
    const unsigned turn = picture.orientation;
    const bool up = turn == 3 || turn == 4 || turn == 6 || turn == 7; // the stored rows
    const bool back = turn == 2 || turn == 3 || turn == 7 || turn == 8;
    const auto row_step = std::ptrdiff_t(picture.width) * 3, column_step = std::ptrdiff_t(3);
    const std::ptrdiff_t down = up ? -row_step : row_step, right = back ? -column_step : column_step;
    const std::ptrdiff_t step_y = turns(turn) ? right : down, step_x = turns(turn) ? down : right;
    const std::uint8_t* const first = picture.pixels.get() + (up ? row_step * (picture.height - 1) : 0) +
                                      (back ? column_step * (picture.width - 1) : 0) + step_y * box.top +
                                      step_x * box.left;
    std::vector<std::uint8_t> planes(3 * plane);
    for (unsigned y = 0; y < height; ++y)
        for (unsigned x = 0; x < width; ++x)
            for (unsigned c = 0; c < 3; ++c)
                planes[c * plane + std::size_t(y) * width + x] = first[step_y * y + step_x * x + c];
    return planes;
}

std::vector<std::uint8_t> as_grey(const std::vector<std::uint8_t>& colour) {
    std::vector<std::uint8_t> grey(colour.size() / 3);
    make_grey(colour, grey);
    return grey;
}

/// The fewest eighths of a JPEG's size at which it covers a size.
unsigned eighths_for(const ImageSize& full, ImageSize size) {
    unsigned eighths = 1;
    while (eighths < 8 &&
           (scaled(full.height, eighths) < size.height || scaled(full.width, eighths) < size.width))
        ++eighths;
    return eighths;
}

/// The memory of pictures that are decoded at once, by all threads.
ByteBudget& decoding() {
    static ByteBudget budget(std::uint64_t(1) << 30);
    return budget;
}

RawPicture decode(std::span<const std::uint8_t> bytes, unsigned eighths) {
    if (is_jpeg(bytes)) return decode_jpeg(bytes, eighths);
    if (is_png(bytes)) return decode_png(bytes);
    if (is_webp(bytes)) return decode_webp(bytes);
    refuse_other(bytes);
}

} // namespace

void check_file_size(std::uint64_t bytes) {
    if (bytes > most_picture_bytes)
        throw PictureError(fmt::format("has {} MiB, more than {}", bytes >> 20, most_picture_bytes >> 20));
}

bool begins_as_picture(std::span<const std::uint8_t> bytes) {
    return is_jpeg(bytes) || is_png(bytes) || is_webp(bytes);
}

ImageSize picture_size(PictureBytes bytes) {
    const std::span<const std::uint8_t> begin = bytes.at(0, 12);
    if (!begins_as_picture(begin)) refuse_other(begin);
    auto [size, orientation] = is_png(begin)    ? read_png_header(bytes)
                               : is_webp(begin) ? read_webp_header(bytes)
                                                : read_jpeg_header(bytes);
    if (turns(orientation)) std::swap(size.height, size.width);
    return size;
}

Picture decode_picture(std::span<const std::uint8_t> bytes, unsigned channels) {
    const RawPicture raw = decode(bytes, 8);
    const Resizer::Size size = upright(raw);
    std::vector<std::uint8_t> planes = planes_of(raw, {0, 0, size});
    return {{size.height, size.width, channels}, channels == 1 ? as_grey(planes) : std::move(planes)};
}

void prepare_picture(std::span<const std::uint8_t> bytes, ImageSize size, std::span<std::uint8_t> image) {
    const ImageSize full = picture_size(bytes);
    const unsigned eighths = is_jpeg(bytes) ? eighths_for(full, size) : 8;
    const std::uint64_t pixels = std::uint64_t(scaled(full.height, eighths)) * scaled(full.width, eighths);
    const ByteBudget::Share share = decoding().take(6 * pixels); // as decoded, and as planes
    const RawPicture raw = decode(bytes, eighths);
    const Box box = centre_box(upright(raw), size);
    std::vector<std::uint8_t> planes = planes_of(raw, box);
    if (size.channels == 1) planes = as_grey(planes);
    const std::size_t plane = planes.size() / size.channels, wanted = image.size() / size.channels;
    const Resizer resizer(box.size, {size.height, size.width});
    for (unsigned c = 0; c < size.channels; ++c)
        resizer.resize(std::span(planes).subspan(c * plane, plane), image.subspan(c * wanted, wanted));
}

} // namespace towers
