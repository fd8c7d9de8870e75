#include "engine/data/contact_sheet.h"

#include "backends/error.h"
#include "engine/files/canvas.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>

namespace towers {
namespace {

constexpr unsigned gap = 6, least_side = 96; // pixels; of a magnified image

unsigned magnification(const ImageSize& size) {
    return std::max(1u, least_side / std::max(size.height, size.width));
}

void draw(Canvas& canvas, const SheetImage& image, unsigned left, unsigned top) {
    const unsigned times = magnification(image.size);
    const std::size_t plane = std::size_t(image.size.height) * image.size.width;
    for (unsigned y = 0; y < image.size.height * times; ++y)
        for (unsigned x = 0; x < image.size.width * times; ++x) {
            const std::size_t from = std::size_t(y / times) * image.size.width + x / times;
            Colour colour{};
            for (unsigned c = 0; c < 3; ++c)
                colour[c] = image.planes[std::min(c, image.size.channels - 1) * plane + from];
            canvas.set(left + x, top + y, colour);
        }
}

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
            draw(canvas, image, x, top);
            x += image.size.width * magnification(image.size) + gap / 2;
            bottom = std::max(bottom, top + image.size.height * magnification(image.size));
        }
        canvas.write(cells[i].label, left, bottom + 2, width - gap);
    }
    canvas.save(path);
}

} // namespace towers
