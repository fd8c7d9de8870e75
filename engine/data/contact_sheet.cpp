#include "engine/data/contact_sheet.h"

#include "engine/error.h"
#include "engine/files/png_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/format.h>
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_easy_font.h>
#pragma GCC diagnostic pop

namespace towers {
namespace {

constexpr unsigned gap = 6, text_height = 12; // pixels
constexpr unsigned least_side = 96;           // of a magnified image

unsigned magnification(const ImageSize& size) {
    return std::max(1u, least_side / std::max(size.height, size.width));
}

class Canvas {
public:
    Canvas(unsigned width, unsigned height)
        : width_(width), height_(height), pixels_(std::size_t(width) * height * 3, 255) {}

    void draw(const SheetImage& image, unsigned left, unsigned top) {
        const unsigned times = magnification(image.size);
        const std::size_t plane = std::size_t(image.size.height) * image.size.width;
        for (unsigned y = 0; y < image.size.height * times; ++y)
            for (unsigned x = 0; x < image.size.width * times; ++x) {
                const std::size_t from = std::size_t(y / times) * image.size.width + x / times;
                std::array<std::uint8_t, 3> colour{};
                for (unsigned c = 0; c < 3; ++c)
                    colour[c] = image.planes[std::min(c, image.size.channels - 1) * plane + from];
                set(left + x, top + y, colour);
            }
    }

    void write(std::string text, unsigned left, unsigned top, unsigned width) {
        std::ranges::replace_if(
            text, [](char c) { return c < 32 || c > 126; }, '?');
        while (!text.empty() && unsigned(stb_easy_font_width(text.data())) > width) text.pop_back();
        struct Vertex {
            float x, y, z;
            std::array<unsigned char, 4> colour;
        };
        std::vector<std::array<Vertex, 4>> quads(text.size() * 20);
        const int count = stb_easy_font_print(0, 0, text.data(), nullptr, quads.data(),
                                              int(quads.size() * sizeof(quads[0])));
        for (int i = 0; i < count; ++i) { // rectangles
            const auto& [first, second, opposite, last] = quads[std::size_t(i)];
            for (auto y = unsigned(first.y); y < unsigned(opposite.y); ++y)
                for (auto x = unsigned(first.x); x < unsigned(opposite.x); ++x) set(left + x, top + y, {});
        }
    }

    void save(const std::filesystem::path& path) const { write_png(path, {width_, height_, 3}, pixels_); }

private:
    void set(unsigned x, unsigned y, const std::array<std::uint8_t, 3>& colour) {
        if (x < width_ && y < height_)
            std::ranges::copy(colour, pixels_.begin() + std::ptrdiff_t((std::size_t(y) * width_ + x) * 3));
    }

    unsigned width_, height_;
    std::vector<std::uint8_t> pixels_;
};

} // namespace

void write_contact_sheet(const std::filesystem::path& path, std::span<const SheetCell> cells,
                         unsigned columns) {
    unsigned width = 0, height = 0; // of the largest cell
    for (const SheetCell& cell : cells) {
        unsigned cell_width = gap;
        for (const SheetImage& image : cell.images) {
            const unsigned times = magnification(image.size);
            cell_width += image.size.width * times + gap / 2;
            height = std::max(height, image.size.height * times);
        }
        width = std::max(width, cell_width);
    }
    height += text_height + gap;
    columns = std::min(columns, unsigned(cells.size()));
    const auto rows = unsigned((cells.size() + columns - 1) / columns);
    constexpr std::uint64_t most = 100'000'000;
    if (std::uint64_t(width) * columns * height * rows > most)
        throw InputError(fmt::format(
            "{}: {} images make a sheet of {}x{} pixels, more than {} million; show fewer", path.string(),
            cells.size(), std::uint64_t(height) * rows, std::uint64_t(width) * columns, most / 1'000'000));
    Canvas canvas(width * columns + gap, height * rows + gap);
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const unsigned left = gap + unsigned(i % columns) * width, top = gap + unsigned(i / columns) * height;
        unsigned x = left, bottom = top;
        for (const SheetImage& image : cells[i].images) {
            canvas.draw(image, x, top);
            x += image.size.width * magnification(image.size) + gap / 2;
            bottom = std::max(bottom, top + image.size.height * magnification(image.size));
        }
        canvas.write(cells[i].label, left, bottom + 2, width - gap);
    }
    canvas.save(path);
}

} // namespace towers
