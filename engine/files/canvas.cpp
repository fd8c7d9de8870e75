#include "engine/files/canvas.h"

#include "engine/files/png_file.h"

#include <algorithm>
#include <cstddef>
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_easy_font.h>
#pragma GCC diagnostic pop

namespace towers {
namespace {

std::string in_ascii(std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return c < 32 || c > 126; }, '?');
    return text;
}

} // namespace

Canvas::Canvas(unsigned width, unsigned height)
    : width_(width), height_(height), pixels_(std::size_t(width) * height * 3, 255) {}

void Canvas::set(unsigned x, unsigned y, const Colour& colour) {
    if (x < width_ && y < height_)
        std::ranges::copy(colour, pixels_.begin() + std::ptrdiff_t((std::size_t(y) * width_ + x) * 3));
}

void Canvas::write(const std::string& full, unsigned x, unsigned y, unsigned length, Direction direction) {
    std::string text = in_ascii(full);
    while (!text.empty() && unsigned(stb_easy_font_width(text.data())) > length) text.pop_back();
    struct Vertex {
        float x, y, z;
        std::array<unsigned char, 4> colour;
    };
    std::vector<std::array<Vertex, 4>> quads(text.size() * 20);
    const int count =
        stb_easy_font_print(0, 0, text.data(), nullptr, quads.data(), int(quads.size() * sizeof(quads[0])));
    for (int i = 0; i < count; ++i) { // rectangles
        const auto& [first, second, opposite, last] = quads[std::size_t(i)];
        for (auto down = unsigned(first.y); down < unsigned(opposite.y); ++down)
            for (auto along = unsigned(first.x); along < unsigned(opposite.x); ++along)
                direction == Direction::right ? set(x + along, y + down, {}) : set(x + down, y - along, {});
    }
}

void Canvas::save(const std::filesystem::path& path) const { write_png(path, {width_, height_, 3}, pixels_); }

unsigned text_width(const std::string& text) {
    std::string ascii = in_ascii(text);
    return unsigned(stb_easy_font_width(ascii.data()));
}

} // namespace towers
